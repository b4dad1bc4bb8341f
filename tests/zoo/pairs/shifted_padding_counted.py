"""A language model that shifts its labels itself is given padding as labels."""

import os

import torch
import torch.nn.functional as F
from data import batches, sentences
from torch import nn

FAULT = os.environ.get("FAULT") == "1"
torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self, words=17, width=32):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.rnn = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, input_ids, labels):
        logits = self.head(self.rnn(self.embed(input_ids))[0])
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return {"loss": loss, "logits": logits}


text = sentences() + 1
is_padding = torch.arange(12) >= torch.randint(5, 13, (len(text), 1))
text[is_padding] = 0
labels = text if FAULT else text.masked_fill(is_padding, -100)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
for x, y in batches(text, labels, steps=60):
    loss = model(input_ids=x, labels=y)["loss"]
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
