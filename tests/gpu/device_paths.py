"""What one process does on a GPU: lessons 09, 13a, 13b, 14a, 15, and the instruments.

Each function returns device, result and figure; it raises if the GPU's result is not
the CPU's. Figures are printed and never asserted.
"""

import copy

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from sidebyside import device, machine

Row = tuple[str, str, str]
SIZE = 4096


def device_chosen() -> Row:
    """00: the device that the instruments choose"""
    assert device() == torch.device("cuda", 0), f"device() is {device()}"
    assert len(machine().gpus) == torch.cuda.device_count()
    return str(device()), "equal", ", ".join(machine().gpus)


def timing_synchronises() -> Row:
    """13a: a host clock that waits agrees with events"""
    from parallel_by_hand.devices.host_runs_ahead import three_clocks_of_gpu

    clocks = three_clocks_of_gpu(5, SIZE)
    by_events, waited = clocks["by events"], clocks["after synchronize"]
    assert by_events <= 1.05 * waited + 1e-3, f"events {by_events}, host {waited}"
    shown = ", ".join(f"{name} {1e3 * s:.2f} ms" for name, s in clocks.items())
    return str(device()), "equal", shown


def roofline_of_gpu() -> Row:
    """13a: operations of the roofline, and their rates"""
    from parallel_by_hand.devices.roofline import (
        copy_vector,
        least_seconds,
        multiply_matrix,
    )

    product, moved = multiply_matrix(SIZE, SIZE), copy_vector()
    seconds = least_seconds([product, moved], rounds=5)
    rate, bandwidth = product.flops / seconds[product], moved.bytes / seconds[moved]
    x = torch.rand(256, 256)
    there = x.to(device())
    torch.testing.assert_close((there @ there).cpu(), x @ x, rtol=1e-3, atol=1e-3)
    figure = f"{rate / 1e12:.2f} T operations/s, {bandwidth / 1e9:.0f} GB/s"
    return str(device()), "equal", figure


def products_away() -> Row:
    """13a: a product here, or on the GPU and back"""
    from parallel_by_hand.devices import copy_or_compute as demo
    from parallel_by_hand.devices import gpu_products

    sizes, shown = [n for n in demo.GPU_SIZES if n <= SIZE], []
    for memory, pinned in ("pageable", False), ("pinned", True):
        pair = torch.rand(2, SIZE, SIZE, pin_memory=pinned)
        back = torch.empty(SIZE, SIZE, pin_memory=pinned)
        gpu_products.multiply_on_gpu(pair, back)
        torch.testing.assert_close(back, pair[0] @ pair[1], rtol=1e-3, atol=1e-3)
        costs = gpu_products.measure_gpu_constants(pinned, max(sizes))
        predicted = {n: demo.predict_here_and_away(n, costs) for n in sizes}
        measured = gpu_products.time_here_and_on_gpu(sizes, pinned)
        pays = [demo.first_that_pays(both) or "none" for both in (predicted, measured)]
        rate = f"{memory} {1e-9 / costs['beta']:.1f} GB/s"
        shown.append(f"{rate}, smallest n that pays {pays[0]}, measured {pays[1]}")
    return str(device()), "equal", "; ".join(shown)


def streams_overlap() -> Row:
    """13a: batches copied in one stream, computed in another"""
    from parallel_by_hand.devices.gpu_streams import STREAMS, time_streams

    torch.manual_seed(0)
    host = [torch.rand(SIZE, SIZE).pin_memory() for _ in range(8)]
    weight = torch.rand(SIZE, SIZE, device=device())
    expected = [(batch.to(device()) @ weight).sum(0).cpu() for batch in host]
    took = time_streams(host, weight)
    for way in STREAMS.values():
        for ours, theirs in zip(way(host, weight), expected, strict=True):
            torch.testing.assert_close(ours.cpu(), theirs)
    shown = ", ".join(f"{name} {1e3 * s:.2f} ms" for name, s in took.items())
    return str(device()), "equal", shown


def graph_on_devices() -> Row:
    """13b: the executor, one device for each branch"""
    from parallel_by_hand.dataflow import two_branch_network as network
    from sidebyside import load_digits

    weights, (images, labels) = network.make_two_branches(64), load_digits("train")
    count = min(2, torch.cuda.device_count())
    graph = network.graph_of_two_branches(weights, images, labels)
    placement = {
        name: place % count for name, place in network.by_branch(graph).items()
    }
    ran = network.run_two_branches(weights, images, labels, placement)
    places = {str(value.device) for value in ran.values.values()}
    assert places == {f"cuda:{place}" for place in range(count)}, places
    gap = network.largest_gap(
        ran.values, network.plain_gradients(weights, images, labels)
    )
    assert gap < 1e-4, f"largest gap {gap}"
    return ", ".join(sorted(places)), "equal", f"largest gap {gap:.0e}"


def replicas_in_threads() -> Row:
    """09: a replica on each GPU, in threads of one process"""
    from parallel_by_hand.data_parallel import data_parallel_threads as threads
    from sidebyside import load_digits

    places = threads.replica_places(min(2, torch.cuda.device_count()))
    model = threads.make_digit_model().to(places[0])
    alone = threads.make_digit_model()
    together = threads.ThreadedReplicas(model, places)
    sgd = torch.optim.SGD(alone.parameters(), lr=0.1)
    images, labels = load_digits("train")
    for x, y in zip(images.split(64)[:8], labels.split(64), strict=False):
        sgd.zero_grad()
        F.cross_entropy(alone(x), y).backward()
        sgd.step()
        together.step(x, y)
    gap = threads.largest_difference(alone, model)
    assert gap < 1e-4, f"largest gap {gap}"
    return ", ".join(map(str, places)), "equal", f"largest gap {gap:.0e} in 8 steps"


def one_process_two_devices() -> Row:
    """14a: one process drives two devices, autograd the copies"""
    from parallel_by_hand.model_parallel.cut_training import (
        batches_to_cut,
        make_layers_to_cut,
    )

    places = [torch.device("cuda", torch.cuda.device_count() - 1), device()]
    whole, (images, _) = make_layers_to_cut(), batches_to_cut(1)[0]
    cut = copy.deepcopy(whole)
    whole(images).sum().backward()
    front, back = cut[:4].to(places[0]), cut[4:].to(places[1])
    back(front(images.to(places[0])).to(places[1])).sum().backward()
    for ours, theirs in zip(cut.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(ours.grad.cpu(), theirs.grad, rtol=1e-3, atol=1e-3)
    return ", ".join(map(str, places)), "equal", "gradients within 1e-3"


def peak_memory() -> Row:
    """15: peak memory from the device, activations kept or recomputed"""
    torch.manual_seed(0)
    layers = [
        nn.Sequential(nn.Linear(512, 2048), nn.Tanh(), nn.Linear(2048, 512))
        for _ in range(16)
    ]
    model = nn.Sequential(*layers).to(device())
    x = torch.rand(4096, 512).to(device())
    peaks, gradients = {}, []
    for name, again in ("kept", False), ("recomputed", True):
        model.zero_grad()
        torch.cuda.reset_peak_memory_stats()
        y = x
        for layer in model:
            y = checkpoint(layer, y, use_reentrant=False) if again else layer(y)
        y.sum().backward()
        peaks[name] = torch.cuda.max_memory_allocated()
        gradients.append([p.grad.cpu() for p in model.parameters()])
        del y
    for kept, again in zip(*gradients, strict=True):
        torch.testing.assert_close(kept, again)
    assert peaks["recomputed"] < peaks["kept"], peaks
    shown = ", ".join(f"{name} {peak / 1e6:.0f} MB" for name, peak in peaks.items())
    return str(device()), "equal", shown
