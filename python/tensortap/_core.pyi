"""The C core of tensortap: summaries of tensors."""

from collections.abc import Callable
from types import CodeType
from collections.abc import Callable, Iterable
from types import CodeType, TracebackType
from typing import Any, Literal, NamedTuple, SupportsFloat, final

version: str
isa: str  # the kernels in use: "base", "avx2", "neon"

@final
class Stats:
    """What the elements of a tensor are like: counts, range, moments, norms."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def count(self) -> int: ...
    @property
    def nan(self) -> int: ...
    @property
    def posinf(self) -> int: ...
    @property
    def neginf(self) -> int: ...
    @property
    def zeros(self) -> int: ...
    # Floats; exact ints for integer and bool types, None where these are empty;
    # sum and mean are complex for complex types.
    @property
    def min(self) -> Any: ...
    @property
    def max(self) -> Any: ...
    @property
    def absmax(self) -> Any: ...
    @property
    def sum(self) -> Any: ...
    @property
    def mean(self) -> Any: ...
    @property
    def var(self) -> float: ...
    @property
    def std(self) -> float: ...
    @property
    def l1(self) -> float: ...
    @property
    def l2(self) -> float: ...
    @property
    def rms(self) -> float: ...
    def as_dict(self) -> dict[str, Any]: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class Histogram:
    """Counts of a tensor's elements in fixed logarithmic bins; a + b merges two."""

    @property
    def count(self) -> int: ...
    @property
    def nan(self) -> int: ...
    @property
    def posinf(self) -> int: ...
    @property
    def neginf(self) -> int: ...
    @property
    def zeros(self) -> int: ...
    @property
    def counts(self) -> list[int]: ...
    @property
    def edges(self) -> list[tuple[float, float]]: ...
    def quantile(self, q: SupportsFloat, /) -> float: ...
    def as_dict(self) -> dict[str, Any]: ...
    def __add__(self, other: Histogram, /) -> Histogram: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class Digest:
    """128 bits that stand for a tensor's shape, type and elements."""

    def __new__(cls, hex: str, /) -> Digest: ...
    def hex(self) -> str: ...
    def as_dict(self) -> dict[str, Any]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Compare:
    """How two tensors of one shape differ."""

    @property
    def equal(self) -> bool: ...
    @property
    def allclose(self) -> bool: ...
    @property
    def count(self) -> int: ...
    @property
    def differing(self) -> int: ...
    @property
    def max_abs(self) -> float: ...
    @property
    def max_rel(self) -> float: ...
    @property
    def argmax(self) -> tuple[int, ...] | None: ...
    @property
    def ulp_max(self) -> int | None: ...
    @property
    def ulp_hist(self) -> list[int] | None: ...
    def as_dict(self) -> dict[str, Any]: ...

@final
class SampleSlice(NamedTuple):
    """A table of elements."""

    label: str
    rows: list[int]
    cols: list[int]
    data: list[list[Any]]

@final
class Sample:
    """A few elements that stand for a whole tensor, as tables."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def partial(self) -> bool: ...
    @property
    def slices(self) -> list[SampleSlice]: ...
    def as_dict(self) -> dict[str, Any]: ...

@final
class Attention:
    """What attention weights are like, for each head and query.

    The three are NumPy arrays of float32, or memoryviews where there is no NumPy.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def entropy(self) -> Any: ...
    @property
    def max_logit(self) -> Any: ...
    @property
    def sink(self) -> Any: ...
    def as_dict(self) -> dict[str, Any]: ...

class Flow:
    """The last tensor changes of a program; select(code) gives the lines wanted, or None."""

    record: Callable[[str, Any], object] | None
    def __new__(cls, select: Callable[[CodeType], tuple[int, int] | None]) -> Flow: ...
    def set(
        self,
        *,
        max_nodes: int,
        max_vector: int,
        max_matrix: int,
        max_slices: int,
        returns: bool,
        arrays: bool,
    ) -> None: ...
    def on(self) -> None: ...
    def off(self) -> None: ...
    def clear(self) -> None: ...
    @property
    def is_on(self) -> bool: ...
    def places(self) -> list[tuple[str, CodeType, int, bool]]: ...
    def dot(self, codes: list[str], /) -> str: ...
    def json(self, codes: list[str], /) -> str: ...
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
def tree_text(
    rows: list[tuple[int, str, str]],
    /,
    *,
    color: bool = False,
    ascii: bool = False,
    columns: int = 0,
) -> str: ...
def _stats_from(dtype: str, shape: tuple[int, ...], numbers: tuple[Any, ...], /) -> Stats: ...

class LineRead(NamedTuple):
    """A name that a statement read."""

    kind: Literal["local", "global", "attribute", "item"]
    name: str
    key: int  # of this state of the name; an arrow starts at the node with this key
    object: Any  # None: it is gone, or in another state now
    version: int
    is_seen: bool  # the key was told before

class LineChange(NamedTuple):
    """A name that a statement changed."""

    kind: Literal["local", "global", "attribute", "item"]
    name: str
    how: Literal["bound", "rebound", "inplace"]
    old_key: int | None
    key: int
    object: Any
    reads: tuple[int, ...]  # indices into the event's reads: the arrows
    version: int
    is_sampled: bool  # above 64 MB: only a part of the contents was compared

class LineEvent(NamedTuple):
    """What a statement did; see python/ext/source_line.h."""

    frame: int
    code: CodeType
    line: int
    changes: list[LineChange]
    reads: list[LineRead]
    caller: int
    thread: int
    value: Any
    is_return: bool
    is_resumed: bool
    is_yield: bool

@final
class LineWatch:
    """A consumer of the line source; made by watch_lines()."""

    @property
    def errors(self) -> tuple[int, str | None]: ...
    @property
    def is_open(self) -> bool: ...
    def close(self) -> None: ...
    def local(self, name: str, /) -> Any: ...
    def __enter__(self) -> LineWatch: ...
    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> Literal[False]: ...

def watch_lines(
    change: Callable[[LineEvent], object] | None = None,
    *,
    before: Callable[[LineEvent], object] | None = None,
    enter: Callable[[LineEvent], object] | None = None,
    leave: Callable[[LineEvent], object] | None = None,
    line: Callable[[LineEvent], object] | None = None,
    select: Callable[[CodeType], bool | tuple[int, int]] | None = None,
    files: Iterable[str] | None = None,
    prefixes: Iterable[str] | None = None,
    codes: Iterable[CodeType] | None = None,
    lines: tuple[int, int] | None = None,
    names: Iterable[str] | None = None,
    threads: Literal["later", "own", "all"] = "later",
    arrays: bool = False,
    objects: bool = False,
) -> LineWatch:
    """Call functions with what each line of the selected code does, until closed."""
