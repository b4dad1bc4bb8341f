"""A pytest fixture that records a test's training, and fails the test if it is not healthy.

    def test_training(healthy_training):
        with healthy_training(model, ignore=["repeated-batch"]):
            train(model)

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import tensortap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path


@pytest.fixture
def healthy_training(tmp_path: Path) -> Callable[..., Any]:
    """Record a training in a `with` block; fail with the sentence of each error-level finding.

    Call it with the model, and optionally with `ignore=[...]`, `allow="..."`, `strict=True`,
    `baseline=...` (as for `tt.assert_healthy`) and options of `tt.record`.
    """

    @contextmanager
    def training(
        model: Any = None,
        *,
        ignore: Iterable[str] | None = None,
        allow: str | None = None,
        strict: bool = False,
        baseline: Any = None,
        **options: Any,
    ) -> Iterator[Any]:
        count = len(list(tmp_path.glob("training*")))
        path = tmp_path / f"training{count or ''}"
        with tensortap.record(path, model=model, allow=allow, **options) as run:
            yield run
        try:
            tensortap.assert_healthy(
                path, ignore=ignore, allow=allow, strict=strict, baseline=baseline
            )
        except tensortap.UnhealthyError as error:
            pytest.fail(f"the training is not healthy\n{error}", pytrace=False)

    return training
