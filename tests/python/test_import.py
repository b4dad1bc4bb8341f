"""What importing tensortap costs, and that it imports nobody else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tensortap as tt


def run(code: str, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **env},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_tensortap_imports_neither_torch_nor_numpy() -> None:
    names = run("import sys, tensortap; print(*(m.partition('.')[0] for m in sys.modules))")
    assert not {"torch", "numpy", "IPython", "dataclasses"} & set(names.split())


def test_numbers_without_numpy_do_not_import_it() -> None:
    code = "import sys, tensortap; tensortap.stats(b'abc'); print('numpy' in sys.modules)"
    assert run(code) == "False"


def test_importing_takes_less_than_50_ms() -> None:
    code = "import time; a = time.process_time(); import tensortap; print(time.process_time() - a)"
    assert any(float(run(code)) < 0.05 for _ in range(30))  # a busy machine is slow now and then


def test_the_version_is_that_of_the_program() -> None:
    program = Path(sys.executable).with_name("tensortap")
    path = str(program) if program.exists() else shutil.which("tensortap")
    if path is None:
        pytest.skip("the program was not installed with the package")
    done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=120)
    assert done.stdout.split()[-1] == tt.__version__


def test_every_public_name_is_there() -> None:
    assert all(hasattr(tt, name) for name in tt.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        tt.nonsense  # noqa: B018


def test_the_decorators_of_track_are_names_of_the_package() -> None:
    from tensortap import track

    assert tt.auto_diff is track.auto_diff
    assert tt.var_tracker is track.var_tracker


def test_the_module_can_be_imported_again() -> None:
    code = """if True:
        import sys, tensortap
        first = tensortap._core
        for name in list(sys.modules):
            if name.startswith("tensortap"): del sys.modules[name]
        import tensortap
        assert tensortap._core is not first
        print(first.stats(b"a").sum, tensortap.stats(b"a").sum)
    """
    assert run(code) == "97 97"


def test_a_subinterpreter_is_refused() -> None:
    code = """if True:
        try:
            import _interpreters as sub
        except ImportError:
            import _xxsubinterpreters as sub
        it = sub.create()
        script = "try:\\n import tensortap._core\\nexcept ImportError as e:\\n print(e)"
        sub.run_string(it, script)
    """
    assert "does not support loading in subinterpreters" in run(code)


def test_a_torch_that_is_half_imported_is_asked_without_a_pending_exception() -> None:
    code = """if True:
        import sys, types
        import tensortap
        answers = []
        class Half(types.ModuleType):
            @property
            def Parameter(self):  # is asked for when TensorBase was not there
                answers.append(sum([1]))  # at its end an iteration looks for exceptions
        for name in ("torch", "torch._C", "torch.nn"):
            sys.modules[name] = Half(name)
        try:
            tensortap.stats(object())
        except TypeError:
            print(answers)"""
    assert run(code).startswith("[1")
