"""The C extension of tensortap."""

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from os import PathLike
from types import CodeType, FrameType, TracebackType
from typing import Any, Final, Literal, NamedTuple, Self, SupportsFloat, final, overload
from weakref import ref

import torch

version: str
isa: str  # the kernels in use: "base", "avx2", "neon"

@final
class Stats:
    shape: Final[tuple[int, ...]]
    dtype: Final[str]
    count: Final[int]
    nan: Final[int]
    posinf: Final[int]
    neginf: Final[int]
    zeros: Final[int]
    # Floats; exact ints for integer and bool types (None for an empty tensor);
    # sum and mean are complex for complex types.
    min: Final[Any]
    max: Final[Any]
    absmax: Final[Any]
    sum: Final[Any]
    mean: Final[Any]
    var: Final[float]
    std: Final[float]
    l1: Final[float]
    l2: Final[float]
    rms: Final[float]
    def as_dict(self) -> dict[str, Any]: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class Histogram:
    count: Final[int]
    nan: Final[int]
    posinf: Final[int]
    neginf: Final[int]
    zeros: Final[int]
    counts: Final[list[int]]
    edges: Final[list[tuple[float, float]]]
    def quantile(self, q: SupportsFloat, /) -> float: ...
    def as_dict(self) -> dict[str, Any]: ...
    def __add__(self, other: Histogram, /) -> Histogram: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class Digest:
    def __new__(cls, hex: str, /) -> Digest: ...
    def hex(self) -> str: ...
    def as_dict(self) -> dict[str, Any]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Compare:
    equal: Final[bool]
    allclose: Final[bool]
    count: Final[int]
    differing: Final[int]
    max_abs: Final[float]
    max_rel: Final[float]
    argmax: Final[tuple[int, ...] | None]
    ulp_max: Final[int | None]
    ulp_hist: Final[list[int] | None]
    def as_dict(self) -> dict[str, Any]: ...

@final
class SampleSlice(NamedTuple):
    label: str
    rows: list[int]
    cols: list[int]
    data: list[list[Any]]

@final
class Sample:
    shape: Final[tuple[int, ...]]
    dtype: Final[str]
    partial: Final[bool]
    slices: Final[list[SampleSlice]]
    def as_dict(self) -> dict[str, Any]: ...

@final
class Attention:
    shape: Final[tuple[int, ...]]
    entropy: Final[Any]
    max_logit: Final[Any]
    sink: Final[Any]
    def as_dict(self) -> dict[str, Any]: ...

class Flow:
    def __new__(
        cls,
        select: Callable[[CodeType], tuple[int, int] | None],
    ) -> Flow: ...
    def set(
        self,
        *,
        max_nodes: int,
        max_vector: int,
        max_matrix: int,
        max_slices: int,
        returns: bool,
        arrays: bool,
        root: str,  # removed from the names of files in the run
    ) -> None: ...
    def on(self) -> None: ...
    def off(self) -> None: ...
    def copy(self) -> Flow: ...
    def clear(self, copy: Flow = ..., /) -> None: ...
    is_on: Final[bool]
    def places(
        self,
    ) -> list[tuple[str, CodeType, int, bool, ref[Any] | None, tuple[int, ...], str]]: ...
    def dot(
        self,
        looks: list[tuple[str, str, int]],
        sizes: bytes = ...,  # width and height of each node
        /,
    ) -> tuple[str, str]: ...
    def json(self, looks: list[tuple[str, str, int]], /) -> str: ...
    def take_errors(self) -> tuple[int, str | None]: ...
    def __len__(self) -> int: ...

# t, a, b, q, k: a torch.Tensor, a NumPy array, anything with a buffer or __dlpack__.
def stats(
    t: Any,
    /,
    *,
    nan_policy: Literal["omit", "propagate"] = "omit",
    release_gil: bool = False,
) -> Stats: ...
def histogram(t: Any, /, *, release_gil: bool = False) -> Histogram: ...
def digest(t: Any, /, *, release_gil: bool = False) -> Digest: ...
def compare(
    a: Any,
    b: Any,
    /,
    *,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
    ulp: bool = False,
    release_gil: bool = False,
) -> Compare: ...
def sample(
    t: Any, /, *, max_vector: int = 32, max_matrix: int = 8, max_slices: int = 6
) -> Sample: ...
def attention(
    q: Any,
    k: Any,
    /,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    mask: Any = None,
    release_gil: bool = False,
) -> Attention: ...
def tensor_line(
    t: object, /, *, color: bool = False, ascii: bool = False, columns: int = 0
) -> str | None: ...
def table_text(
    rows: list[tuple[Any, ...]], /, *, color: bool = False, ascii: bool = False, columns: int = 0
) -> str: ...
def tree_text(
    rows: list[tuple[int, str, str]],
    /,
    *,
    color: bool = False,
    ascii: bool = False,
    columns: int = 0,
) -> str: ...
def tree_line(depth: int, branch: int, text: str, color: bool, /) -> str: ...
def mood_codes() -> dict[str, str]: ...  # plain, type, remark, alarm
def number_text(number: float, /, *, exact: bool = False) -> str: ...
def _stats_here(tensor: Any, /) -> Stats: ...
def _stats_from(dtype: str, shape: tuple[int, ...], numbers: tuple[Any, ...], /) -> Stats: ...
def _histogram_of(counts: Iterable[tuple[float, int]], /) -> Histogram: ...
def _announce(
    module: Any, function: Callable[[Any], object] | None, /, *, evaluation: bool = False
) -> None: ...
def _set_traced_call(
    function: Callable[..., Any],
    listen: Callable[[], list[Any] | None],
    make_slots: Callable[[int], tuple[Any, bool] | None],
    make_forward: Callable[[Any], Any],
    make_tensor: Callable[[bytearray, str, tuple[int, ...]], Any],
    /,
) -> None: ...
def _dynamo_imported() -> None: ...
def _begin_compiling() -> None: ...
def _begins_whole(code: Any, /) -> bool: ...
def _place(kind: str, path: str, is_first: bool, is_last: bool, /) -> int: ...
def _probe_register() -> bool: ...
def _probe_on_device(
    slots: Any,
    call: Any,
    slot: int,
    dtype: str,
    shape: tuple[int, ...],
    start: Callable[[bool], int],
    /,
) -> bool: ...
def _probe_v1(x: Any, slots: Any, /, *rest: Any) -> None: ...
def _hidden(function: Callable[..., Any], traced: Callable[..., Any], call: Any, /) -> Any: ...
def _reduce_module(model: Any, /) -> Any: ...
def _escape(text: str, /) -> str: ...  # what a terminal would obey
def _block_look(header: bytes, at: int, /) -> tuple[bool, int, int] | None: ...
def _value_is_masked(
    name: str, class_name: str | None, nan: int, posinf: int, neginf: int, /
) -> bool: ...
def _read_keep(keep: str, /) -> int: ...  # "stats,value", "stats|value"
def _sketch(t: Any, /) -> bytearray: ...  # 17 float32 a token
def _sketch_turn(blocks: int, /) -> list[float]: ...  # eight complex numbers
def _axes(t: Any, /) -> tuple[bytearray, bytearray]: ...  # uint64 of rows, of columns
def _digests(tensors: list[Any], limit: int, /) -> list[str | None]: ...
def _fold(
    kinds: list[int], numbers: list[int], longest: int, /
) -> list[tuple[int, int, int]]: ...  # at, length, times
def _dot(
    graph: dict[str, str],
    node: dict[str, str],
    rows: list[tuple[str, str | None, dict[str, str]]],  # name, head of an arrow, attributes
    /,
) -> str: ...
def _operators_dot(nodes: list[tuple[Any, ...]], edges: list[tuple[int, int]], /) -> str: ...

@final
class ModuleEvent:
    name: Final[str]
    module: Final[Any]
    args: Final[tuple[Any, ...]]
    kwargs: Final[dict[str, Any] | None]
    output: Final[Any]  # after; None also where forward raised
    exception: Final[BaseException | None]  # after, with errors=True
    call: Final[int]  # of this module in the consumer's step, in order of entry
    depth: Final[int]  # with depth=True: the consumer's own modules around it
    thread: Final[int]  # from 1, in order of appearance
    training: Final[bool]  # of the outermost watched module
    outermost: Final[bool]
    start: Final[int]  # with times=True, as time.perf_counter_ns()
    end: Final[int]

class _Consumer:  # of the source of module calls; it has no class of its own
    off: bool
    def add(self, module: Any, name: str, /) -> None: ...
    def remove(self, module: Any = None, /) -> None: ...
    def unseen(self) -> list[str]: ...

class ModuleConsumer(_Consumer):
    step: int  # calls of a module are counted from 0 again when this changes
    def __new__(
        cls,
        before: Callable[[ModuleEvent], object] | None = None,
        after: Callable[[ModuleEvent], object] | None = None,
        *,
        tensor: Callable[[str, Any], object] | None = None,
        times: bool = False,
        depth: bool = False,
        errors: bool = False,
        raises: bool = True,
    ) -> ModuleConsumer: ...
    errors: Final[int]
    error: Final[BaseException | None]

class Recorder:
    current_step: int
    @property
    def step_over(self) -> bool: ...
    @property
    def autocast(self) -> str: ...
    forwards: int
    manual: bool
    is_inference: bool
    is_by_command: bool
    placer: Callable[[int, str, Any, Any, int], bool] | None
    def __new__(
        cls,
        path: str,
        *,
        only: str | None = None,
        exclude: str | None = None,
        products: int = 2,
        every: int = 1,
        rank: int = 0,
        resume: bool = False,
        drop: bool = False,
        compress: bool = False,
        queue_bytes: int = 0,
        max_bytes: int = 0,
        disk: int = 0,
        budget: float = 0.0,
        info: dict[str, str] = ...,
        child: int = 0,
    ) -> Self: ...
    watchers: Final[list[Any]]
    closed: Final[bool]
    error: Final[str | None]
    inherited: Final[bool]
    counts: Final[dict[str, int]]
    cost: Final[float]
    @overload
    def log(self, name: str, value: Any, /) -> None: ...
    @overload
    def log(self, values: dict[str, Any], /) -> None: ...
    def tensor(
        self,
        name: str,
        t: Any,
        /,
        *,
        keep: str | None = None,
        phase: Literal["train", "eval"] | None = None,
    ) -> None: ...
    def mesh(
        self,
        names: tuple[str, ...],
        sizes: tuple[int, ...],
        coordinate: tuple[int, ...],
        ranks: Any,  # a buffer of int32
        /,
    ) -> int: ...
    def place(
        self,
        site: int,
        step: int,
        mesh: int,
        source: int,
        spreads: tuple[tuple[int, int, int, int], ...],
        shape: tuple[int, ...] | None,
        boxes: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...],
        /,
    ) -> None: ...
    def note(self, text: str, /) -> None: ...
    def module(self, path: str, class_name: str, /) -> None: ...
    def setting(self, step: int, key: str, value: str, /) -> None: ...
    def watch_health(self, allow: str | None, /) -> None: ...
    def new_findings(self) -> str | None: ...
    def step(self) -> None: ...
    def flush(self) -> None: ...
    def close(self, *, timeout: float = 60.0) -> None: ...
    def _follow(self, make: Callable[[], Recorder], /) -> None: ...
    def names(self, glob: str, /) -> list[str]: ...
    def costs(self) -> dict[str, int]: ...
    def thinned(self) -> dict[str, int]: ...
    def _leave(self) -> None: ...
    def _next_step(self) -> None: ...
    def _set_over(self, is_over: bool, /) -> None: ...
    def _train(self) -> None: ...
    def _mark(self) -> int: ...
    def _spend_since(self, mark: int, /) -> None: ...
    def _log_at(self, step: int, name: str, value: float, /) -> None: ...

class OperatorLog:
    operators: Final[list[Any]]
    names: Final[list[str]]
    unlogged: Final[int]
    errors: Final[int]
    error: Final[BaseException | None]
    def __len__(self) -> int: ...
    def read(self, index: int, /) -> tuple[Any, ...]: ...
    def _ask(
        self,
        describe: Callable[[Any], tuple[int, int, tuple[str, ...]]],
        classify: Callable[[CodeType], int],
        name_module: Callable[[Any, Any], str],
        limit: int,
        /,
    ) -> None: ...
    def _release(self) -> None: ...

@final
class RunReader:
    def __new__(cls, path: str | PathLike[str], *, joins: bool = False) -> RunReader: ...
    closed: Final[bool]
    def close(self) -> None: ...
    def refresh(self) -> None: ...
    def files(self) -> list[tuple[str, int, bool, int, int, int, int, int, int, str | None]]: ...
    def names(self, glob: str, /) -> list[str]: ...
    def find(self, name: str, /) -> int: ...
    def points(self, file: int, site: int, /) -> int: ...
    def outgrows(self, bytes: int, /) -> bool: ...
    def extents(self, file: int, /) -> list[tuple[int, int]]: ...
    def missed(self) -> list[tuple[int, int, str]]: ...
    def steps(self, buffer: Any, /) -> int: ...
    def series(self, file: int, site: int, field: str, steps: Any, values: Any, /) -> int: ...
    def point(self, file: int, site: int, index: int, /) -> tuple[Any, ...]: ...
    def placed(self, file: int, site: int, index: int, /) -> Digest | None: ...
    def seek(self, file: int, site: int, step: int, call: int, products: int, /) -> int: ...
    def hist(self, file: int, site: int, index: int, /) -> list[tuple[float, float, int]]: ...
    def sample(self, file: int, site: int, index: int, /) -> Sample: ...
    def tokens(self, file: int, site: int, index: int, /) -> bytearray: ...  # as _sketch
    def value(
        self, file: int, site: int, index: int, /
    ) -> tuple[str, tuple[int, ...], bytearray]: ...
    def placement(self, file: int, site: int, step: int, /) -> tuple[Any, ...] | None: ...
    def joined(self, site: int, /) -> tuple[int, ...] | None: ...
    def origin(self, allow: str | None, /) -> tuple[Any, ...] | None: ...
    def diff(
        self,
        other: RunReader,
        only: str | None,
        first: int,
        last: int,
        rtol: float,
        atol: float,
        old: str | None,
        new: str | None,
        /,
    ) -> tuple[Any, int, list[tuple[Any, ...]], str | None, str | None, list[tuple[Any, ...]]]: ...
    def page(self, path: str, state: str, private: bool, /) -> bytes: ...
    def health(
        self,
        select: str | None,
        ignore: str | None,
        allow: str | None,
        baseline: RunReader | None,
        /,
    ) -> str: ...
    def info(self, file: int, /) -> dict[str, str]: ...
    def notes(self, file: int, /) -> list[tuple[int, int, str]]: ...
    def modules(self, file: int, /) -> dict[str, str]: ...
    def settings(self, file: int, /) -> list[tuple[int, str, str]]: ...
    def strides(self, file: int, /) -> list[tuple[int, int]]: ...
    def tree(
        self, only: str | None, /
    ) -> list[tuple[int, str, str | None, bool, int, list[str]]]: ...
    def check(self, file: int, /) -> tuple[Any, ...]: ...

class Table:
    """A table over runs, for libraries that read Arrow."""

    lost: Final[tuple[int, int, int]]  # runs, points, bytes that could not be read so far
    error: Final[str | None]  # why the first stream that failed did so
    def __new__(
        cls,
        table: str,
        paths: list[str],
        names: list[str],
        glob: str,
        first: int,
        last: int,
        ranks: list[int] | None,
        columns: list[str] | None,
        partial: bool,
    ) -> Table: ...
    def __arrow_c_stream__(self, requested_schema: object = None) -> Any: ...

def tables() -> list[tuple[str, str, list[tuple[str, str, str]]]]: ...

class Spikes:
    """The losses of a training, one after the other, and which of them jump."""

    def see(self, loss: float, step: int, /) -> bool: ...

class Watch(_Consumer):
    gradients: bool
    has_run: bool  # in training; may be set back
    notes: bool  # look at gradients when they are accumulated
    reduced: bool  # they are averaged over ranks after that
    scaled: bool  # the step is GradScaler's
    compiled_again: bool  # some module had been compiled before it was watched
    changed: bool  # gradients were changed in place between backward and the step
    clipped: bool  # ... and were recorded as they were then
    pipelined: bool  # it is a stage of a pipeline; read-only
    def __new__(
        cls,
        recorder: Recorder,
        *,
        inputs: bool = False,
        activation_gradients: bool = False,
        on_nonfinite: Callable[[str, int, int, int, int, int, bool], object] | None = None,
        on_device: Callable[[Any, Any], object] | None = None,
        on_skip: Callable[[], object] | None = None,
        on_again: Callable[[], object] | None = None,
        on_loss: Callable[[torch.Tensor], object] | None = None,
        allow: str | None = None,
        unscale: Callable[[torch.Tensor], torch.Tensor] | None = None,
    ) -> Watch: ...
    errors: Final[int]
    error: Final[BaseException | None]
    unread: Final[dict[str, int]]
    batch_size: Final[int]  # 0: not known
    batch_inputs: Final[str | None]  # types and shapes in the first training batch ...
    called_at: Final[str | None]  # ... and the program's line that called the model with it
    def set_parameters(self, list: list[tuple[str, Any, str]], /) -> None: ...
    def parameter_ids(self) -> list[int]: ...
    def parameter_hook(self, index: int, /) -> Callable[[Any], None]: ...
    def read_parameters(self, which: bytes | None, wants_norm: bool, /) -> float | None: ...
    def set_buffers(self, buffers: list[tuple[str, Any, str]], /) -> None: ...
    def read_buffers(self) -> None: ...
    def end_step(self) -> None: ...
    def add_stats(
        self, tag: tuple[Any, ...], stats: Stats, cost: int, histogram: Histogram | None, /
    ) -> None: ...
    def wants(self, name: str, /) -> bool: ...

def spy_save(
    name: str,
    tensor: Any,
    module: Any = None,
    *,
    norm_only: bool = False,
    stats_only: bool = False,
) -> None: ...

_spy_entered: ContextVar[Any]  # a tuple of tensortap.spy.DebugContext

@final
class FileSaver:
    def __new__(cls, bytes: int = 0) -> FileSaver: ...
    def save(
        self, path: str, tensor: Any, format: str, dtype: str | None, now: bool, /
    ) -> bool: ...
    def wait(self) -> None: ...
    held: Final[int]

@final
class CallLog(_Consumer):
    trace: Final[list[str]]
    def reset(self) -> None: ...
    def events(self) -> list[Any]: ...

@final
class LineWatch:
    errors: Final[tuple[int, str | None]]
    def close(self) -> None: ...
    def __enter__(self) -> LineWatch: ...
    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> Literal[False]: ...

# Each is called with a namespace: lines/watch.c says what is in it.
def watch_lines(
    change: Callable[[Any], object] | None = None,
    *,
    before: Callable[[Any], object] | None = None,
    enter: Callable[[Any], object] | None = None,
    leave: Callable[[Any], object] | None = None,
    line: Callable[[Any], object] | None = None,
    select: Callable[[CodeType], bool | tuple[int, int]] | None = None,
    names: Iterable[str] | None = None,
    threads: Literal["later", "own", "all"] = "later",
    arrays: bool = False,
    objects: bool = False,
    bare: bool = False,
) -> LineWatch: ...

class Metrics(_Consumer):
    def __new__(
        cls,
        resolve: Callable[[str], int],
        tell: Callable[[str, Any], object],
        unread: Callable[[int, Any, str], object],
    ) -> Metrics: ...
    fields: Final[list[str]]
    def forget(self) -> None: ...
    def row(self, fields: tuple[tuple[int, str, bool], ...], /) -> int: ...
    def read(self, row: int, tensor: Any, /) -> None: ...
    def add_stats(self, row: int, stats: Stats, histogram: Histogram | None, /) -> None: ...
    def collect(
        self, into: dict[str, Any] | None, keeps: bool, undefined: set[str] | None = None, /
    ) -> list[tuple[str, list[float]]]: ...
    def histograms(self) -> dict[str, Histogram]: ...
    def numbers(self, list: list[Any], /) -> list[float | None]: ...
    def set_parameters(self, list: list[tuple[Any, int, int, int]], /) -> None: ...
    def read_parameters(self, which: int, /) -> list[int]: ...
    def signature(self, module: Any, /) -> int: ...

class PathTracer:
    def __new__(
        cls,
        keep: Callable[[int, str, Any, int, bool], object],
        gather: Callable[[list[int]], object],
        lists: Callable[[int, str], tuple[list[int], list[Any]]],
        copies: dict[Any, Any],
        groups: list[tuple[int, int, int, int, bool]],
        paths: int,
        wide: bool,
    ) -> Self: ...
    iteration: Final[int]
    training: Final[int]
    evaluation: Final[int]
    errors: Final[int]
    error: Final[object]
    matched: Final[bytearray]
    def add_module(self, module: Any, name: str, is_root: bool, targets: list[Any], /) -> None: ...
    def add_method(
        self,
        code: CodeType,
        module: Any,
        self_name: str,
        self_slot: int,
        is_packed: bool,
        is_hidden: bool,
        targets: list[Any],
        /,
    ) -> None: ...
    def start(self, is_training: bool, /) -> None: ...
    def forget_lists(self) -> None: ...
    def stop(self) -> None: ...

# kind (track/description.py), shape, dtype, device, stats, digest
def track_describe(
    value: object, wants_digest: bool, /
) -> tuple[int, tuple[int, ...] | None, str, str, Stats | None, bytes | None]: ...
def track_key(value: object, /, *, quick: bool = False) -> bytes: ...  # equal values, equal keys
def track_frame_value(frame: FrameType, name: str, missing: object, /) -> Any: ...
def track_record(site: str, value: object, /) -> None: ...
def track_record_change(key: int, file: str, line: int, name: str, value: object, /) -> None: ...

_open_runs: list[Any]  # of runs/process.py

def _owner(code_or_file: CodeType | str, /) -> int: ...  # an Owner of files/owners.py
def _plain_locals(frame: FrameType, /) -> dict[str, bool | int | float | str]: ...
def find_tensors(value: object, name: str, /) -> list[tuple[str, torch.Tensor]]: ...
def children(
    value: object,
    /,
    *,
    sets: bool = False,
    objects: bool = False,
    modules: bool = False,
    limit: int = ...,
) -> list[tuple[Any, Any]] | None: ...
def copy_tensor(
    tensor: torch.Tensor,
    /,
    *,
    make: Callable[[torch.Tensor], torch.Tensor],
    cache: dict[Any, Any] | None = None,
    fresh: bool = False,
) -> torch.Tensor: ...
def copy_into(buffer: Any, tensors: list[torch.Tensor], offsets: list[int], /) -> list[int]: ...
