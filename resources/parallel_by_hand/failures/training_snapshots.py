"""All that a training is made of, taken and given back: solves an exercise of 18b."""

import copy

from parallel_by_hand.failures.resumable_training import DigitsTraining


def snapshot(training: DigitsTraining) -> dict:
    """All that this rank's training is made of, as copies that stay as they are."""
    return copy.deepcopy(
        {
            "model": training.model.state_dict(),
            "optimizer": training.optimizer.state_dict(),
            "place": (training.order, training.used, training.step),
            "shuffle": training.shuffle.get_state(),
            "noise": training.noise.get_state(),
        }
    )


def restore(training: DigitsTraining, saved: dict) -> None:
    """Bring `training` to the moment of the snapshot, which stays as it is."""
    saved = copy.deepcopy(saved)  # the optimiser would go on in its tensors
    training.model.load_state_dict(saved["model"])
    training.optimizer.load_state_dict(saved["optimizer"])
    training.order, training.used, training.step = saved["place"]
    training.shuffle.set_state(saved["shuffle"])
    training.noise.set_state(saved["noise"])
