"""What tests of several lessons ask for by name."""

import pytest
import torch


@pytest.fixture
def one_torch_thread():
    """As in ranks. On a busy machine several threads wait for one another."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
