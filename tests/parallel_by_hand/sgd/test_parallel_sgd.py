"""Models are averaged as often as the program prints."""

import sys

import torch

from demos.sgd import parallel_sgd as parallel_sgd_demo
from parallel_by_hand.sgd import parallel_sgd


def test_models_are_averaged_as_often_as_the_demo_prints(monkeypatch, capsys):
    stack, stacked, counts = torch.stack, [], []
    monkeypatch.setattr(torch, "stack", lambda *a: stacked.append(a) or stack(*a))

    def counting(train):
        def train_and_count(*args):
            before = len(stacked)  # what is averaged is stacked first
            model = train(*args)
            counts.append(len(stacked) - before)
            return model

        return train_and_count

    for train in "average_models_once", "average_gradients_each_step":
        monkeypatch.setattr(
            parallel_sgd_demo, train, counting(getattr(parallel_sgd, train))
        )
    monkeypatch.setattr(sys, "argv", ["", "--workers", "3", "--steps", "7"])
    parallel_sgd_demo.main()
    rows = capsys.readouterr().out.splitlines()
    printed = [
        int(row.split()[-3])
        for row in rows
        if "averaged once" in row or "at each step" in row
    ]
    assert printed == counts == [1, 7] * 3
