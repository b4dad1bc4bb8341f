"""Follow the training loops of libraries: transformers and Lightning.

Each library is imported when a class for it is first asked for.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


class Follower:
    """What follows a training loop; a method that is not overridden does nothing."""

    def training_began(self, model: Any, optimizers: list[Any]) -> None:
        """Follow a model; *optimizers*: those whose closures clip gradients (Lightning)."""

    def step_began(self, step: int) -> None:
        """Begin a step, with the first of its batches."""

    def before_clip(self) -> None:
        """Look at gradients that are about to be clipped (Lightning)."""

    def gradients_ready(self) -> None:
        """Look at gradients that have been clipped (transformers)."""

    def batch_ended(self, *, is_step: bool) -> bool:
        """End a step, or a micro-batch that is not its last; return whether to stop."""
        return False

    def training_ended(self) -> None:
        """End the last step."""

    def training_failed(self) -> None:
        """Let go: an exception ends the training (Lightning)."""


def _transformers() -> type:
    import transformers

    class Callback(Follower, transformers.TrainerCallback):  # type: ignore[misc]
        def on_train_begin(
            self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any
        ) -> None:
            self.training_began(model, [])

        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.step_began(state.global_step)

        def on_substep_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.batch_ended(is_step=False)

        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.gradients_ready()

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if self.batch_ended(is_step=True):
                control.should_training_stop = True

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.training_ended()

    return Callback


def _lightning() -> type:
    try:
        import lightning.pytorch as lightning
    except ImportError:
        import pytorch_lightning as lightning

    class Callback(Follower, lightning.Callback):  # type: ignore[misc]
        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            self.training_began(pl_module, trainer.optimizers)

        def on_train_batch_start(
            self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
        ) -> None:
            self._step_now = trainer.global_step
            self.step_began(trainer.global_step)

        def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
            usual = lightning.LightningModule.configure_gradient_clipping
            is_own = type(pl_module).configure_gradient_clipping is not usual
            if trainer.gradient_clip_val or is_own:
                self.before_clip()

        def on_train_batch_end(
            self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            if self.batch_ended(is_step=trainer.global_step != self._step_now):
                trainer.should_stop = True

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            self.training_ended()

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            self.training_failed()

    return Callback


LIBRARIES = {"Transformers": _transformers, "Lightning": _lightning}


def made_later(module: str, follower: type[Follower], noun: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module that makes the callbacks of *follower* later.

    They are called by their library and *noun*: `TransformersCallback`.
    """

    def get(name: str) -> Any:
        library = LIBRARIES.get(name.removesuffix(noun)) if name.endswith(noun) else None
        if library is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        facts = {"__module__": module, "__doc__": follower.__doc__}
        made = type(name, (follower, library()), facts)
        setattr(sys.modules[module], name, made)
        return made

    return get
