"""A fleet trains each member as if it were alone."""

import torch
from torch.nn import functional as F

from parallel_by_hand.sgd.digits_network import digits_here, digits_network
from parallel_by_hand.sgd.fleets import Fleet


def test_a_fleet_trains_each_member_as_if_it_were_alone():
    images, labels = digits_here("train")
    fleet = Fleet([digits_network(seed) for seed in (1, 2)])
    alone = [digits_network(seed) for seed in (1, 2)]
    rates = torch.tensor([0.5, 1.0])
    for step in range(5):
        mine = torch.tensor([range(step, step + 8), range(50 + step, 58 + step)])
        fleet.step(images[mine], labels[mine], rates)
        for model, rate, own in zip(alone, rates, mine, strict=True):
            sgd = torch.optim.SGD(model.parameters(), lr=rate.item())
            F.cross_entropy(model(images[own]), labels[own]).backward()
            sgd.step()
            sgd.zero_grad()
        for name, weights in fleet.weights.items():
            for place, model in enumerate(alone):
                torch.testing.assert_close(weights[place], model.get_parameter(name))
