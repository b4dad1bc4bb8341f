"""The rules of health in other people's training loops: transformers and Lightning.

    Trainer(..., callbacks=[TransformersCallback("runs/today")])
    lightning.Trainer(..., callbacks=[LightningCallback("runs/today")])

Each records the model that is trained, prints what the rules find, and with health="stop" ends the
training in the trainer's own way.  Each library is imported when its class is first asked for.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any, Literal

from tensortap.models import trainers


class _Recorded:
    """A recording of what a trainer trains."""

    def __init__(
        self, path: Any = None, *, health: Literal["warn", "stop"] = "stop", **options: Any
    ) -> None:
        """Remember the folder of the run, and options of `tt.record`."""
        super().__init__()
        self.path, self.health, self.options = path, health, options
        self.run: Any = None

    def _open(self, model: Any) -> None:
        import tensortap

        self.run = tensortap.record(self.path, model=model, health=self.health, **self.options)
        self.run.guard.raises = False  # the trainer stops itself

    def _should_stop(self) -> bool:
        return self.run is not None and bool(self.run.guard.should_stop)

    def _close(self) -> None:
        run, self.run = self.run, None
        if run is not None:
            run.close()


def _transformers() -> type:
    class TransformersCallback(_Recorded, trainers.transformers().TrainerCallback):  # type: ignore[misc]
        """Records a `transformers.Trainer` and stops it when a rule of health finds an error."""

        def on_train_begin(
            self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any
        ) -> None:
            """Record the model that is trained."""
            self._open(model)

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            """Stop after the step in which an error was found."""
            if self._should_stop():
                control.should_training_stop = True

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            """Close the run."""
            self._close()

    return TransformersCallback


def _lightning() -> type:
    lightning = trainers.lightning()

    class LightningCallback(_Recorded, lightning.Callback):  # type: ignore[misc, name-defined]
        """Records a Lightning trainer and stops it when a rule of health finds an error."""

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            """Record the model that is trained."""
            self._open(pl_module)

        def on_train_batch_end(
            self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            """Stop after the step in which an error was found."""
            if self._should_stop():
                trainer.should_stop = True

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            """Close the run."""
            self._close()

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            """Close the run of a training that failed."""
            self._close()

    return LightningCallback


__getattr__ = trainers.made_later(
    __name__, TransformersCallback=_transformers, LightningCallback=_lightning
)
