"""The subject of the course as a library to read, a room for each theme.

Each room with the lesson that introduces it; it imports only from rooms above it, and
from the instruments (`sidebyside`). No demo and no lesson is imported here.

    performance       01   Speedup: its two laws, a serial share, a queue at counters.
    races             04   Interleavings, lost updates, deadlocks.
    random_numbers    05   Streams of random numbers for workers, loaders and ranks.
    overheads         06   What workers cost, and how many are best.
    practice          07   Real jobs in parallel: pools, accidents, blocks, a diagnosis.
    sgd               08   SGD on digits: batches, noise, shards, averages.
    data_parallel     09   Replicas in threads and in processes, and their bugs.
    collectives       10a  The eight collectives, all-reduce four ways, costs.
    checkpoints       11a  A checkpoint that is whole at any moment.
    ddp               11a  DistributedDataParallel: hooks, buckets, overlap.
    parameter_server  12a  A server and its workers, in step and out of step.
    decentralised     12b  Local SGD and gossip.
    devices           13a  Devices, their queues, and the roofline.
    dataflow          13b  Graphs of operations, placed on devices and executed.
    memory            14a  What a device keeps: bytes for backward, budgets.
    model_parallel    14a  Networks that are cut: by layers, channels, space and time.
    pipeline          15a  Schedules as data, their rules, and stages to carry them out.
    tensor_parallel   16a  Layers, attention, vocabulary and sequence, split over ranks.
    context_parallel  16c  Long texts: attention to positions of other ranks.
    experts           16d  Mixtures of experts, their all-to-all, the block of today.
    sharding          17a  The ledger of training state, and ZeRO 1 to 3.
    machines          18a  Many machines: hosts, slow links, compressed gradients.
    failures          18b  Failures, checkpoints, and what goes on after them.
    clinic            18c  Six sick programs, and the tools that look into them.
    scale             19a  The simulator and the planner, up to ten thousand GPUs.
    capstone          20a  One language model, trained in every way: the ladder.
"""
