"""The rules of health in other people's training loops: transformers and Lightning.

    Trainer(..., callbacks=[TransformersRecorder("runs/today")])
    lightning.Trainer(..., callbacks=[LightningRecorder("runs/today")])

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any, Literal

import tensortap
from tensortap.models import trainers


class _Recorded(trainers.Follower):
    """Records the model that is trained, and prints what the rules of health find.

    With health="stop" an error ends the training in the trainer's own way.
    """

    def __init__(
        self, path: Any = None, *, health: Literal["warn", "stop"] = "stop", **options: Any
    ) -> None:
        """Remember the folder of the run, and options of `tt.record`."""
        super().__init__()
        self.path, self.health, self.options = path, health, options
        self.run: Any = None

    def training_began(self, model: Any, optimizers: list[Any]) -> None:
        self.run = tensortap.record(self.path, model=model, health=self.health, **self.options)
        self.run.guard.raises = False  # the trainer stops itself

    def batch_ended(self, *, is_step: bool) -> bool:
        return self.run is not None and bool(self.run.guard.should_stop)

    def training_ended(self) -> None:
        run, self.run = self.run, None
        if run is not None:
            run.close()

    training_failed = training_ended


__getattr__ = trainers.made_later(__name__, _Recorded, "Recorder")
