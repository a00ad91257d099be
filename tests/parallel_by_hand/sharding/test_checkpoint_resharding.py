"""Checkpoints that are damaged, foreign or planted are refused."""

import pytest
from torch.distributed.checkpoint import FileSystemReader

from parallel_by_hand.sharding import (
    checkpoint_resharding,
)
from sidebyside import RankFailed, run_ranks


def refusal(folder: str, width: int = checkpoint_resharding.WIDTH) -> str:
    train = checkpoint_resharding.train_sharded
    with pytest.raises(RankFailed) as caught:
        run_ranks(train, folder, 1, 2, None, width, world_size=1)
    return str(caught.value).splitlines()[0]


@pytest.mark.everything
def test_torn_unfinished_and_foreign_checkpoints_are_refused_in_a_sentence(tmp_path):
    folder = tmp_path / "saved"
    run_ranks(checkpoint_resharding.train_sharded, str(folder), 0, 2, 1)
    assert "this is another model's checkpoint" in refusal(str(folder), width=32)
    checkpoint_resharding.damage_checkpoint(str(folder))
    assert "__1_0.distcp is torn" in refusal(str(folder))
    (folder / "__1_0.distcp").unlink()
    assert "__1_0.distcp is torn" in refusal(str(folder))
    (folder / ".metadata").unlink()
    assert "no finished checkpoint" in refusal(str(folder))


@pytest.mark.everything
def test_bytes_that_have_changed_within_a_file_are_not_noticed(tmp_path):
    folder = tmp_path / "saved"
    train = checkpoint_resharding.train_sharded
    [_, right] = run_ranks(train, str(folder), 0, 2, 1, world_size=1)[0]
    [path] = folder.glob("*.distcp")
    info = next(
        info
        for index, info in FileSystemReader(folder).read_metadata().storage_data.items()
        if index.fqn == "model.0.0.weight"
    )
    content = bytearray(path.read_bytes())
    middle = info.offset + info.length // 2  # of the tensor's numbers
    content[middle : middle + 64] = bytes(64)
    path.write_bytes(content)
    assert run_ranks(train, str(folder), 1, 2, world_size=1)[0] != [right]
