"""Train a tiny GPT-2 with the Trainer of transformers, measured by a monitor.

    python examples/hf_trainer.py
    tensortap run -o runs/trainer examples/hf_trainer.py       # records it, too

Needs torch, transformers and accelerate.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from tensortap.monitor import ModuleMonitor, TransformersCallback

torch.manual_seed(0)
config = GPT2Config(
    vocab_size=64, n_positions=16, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
)
tokens = torch.randint(0, 64, (40, 16))
data = [{"input_ids": row, "labels": row} for row in tokens]

monitor = ModuleMonitor(monitor_step_fn=lambda step: step % 2 == 0)
monitor.add_activation_metric("std", metric_regex=r"transformer\.h\.\d+$")
monitor.add_gradient_metric("norm", metric_regex=r".*attn.*weight")

with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        max_steps=6,
        per_device_train_batch_size=4,
        report_to="none",
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
    )
    callbacks = [TransformersCallback(monitor)]
    Trainer(GPT2LMHeadModel(config), arguments, train_dataset=data, callbacks=callbacks).train()

for key, value in monitor.get_step_metrics().items():
    print(f"{key:55} {value:.4f}")
