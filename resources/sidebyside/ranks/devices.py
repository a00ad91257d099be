"""Which device this process computes on."""


def device():
    """This rank's GPU under NCCL; outside ranks the first GPU; else the CPU."""
    import torch
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized() and dist.get_backend() != "nccl":
        return torch.device("cpu")
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")
