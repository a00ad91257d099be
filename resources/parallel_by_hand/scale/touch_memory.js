// The formulas of step_memory.py, with 1F1B, fused attention and sequence parallel.

function numbersOfRanks(model, tensor, layers) {
  const {hidden, vocabulary, sequence, tied} = model, last = layers.length - 1;
  const layer = layerNumbers(model, tensor);
  const numbers = layers.map(count => count * layer);
  const table = Math.ceil(vocabulary / tensor) * hidden;
  numbers[0] += table + (tied ? sequence * hidden : 0);
  numbers[last] += 2 * hidden + (last > 0 || !tied ? table : 0);
  return numbers;
}

const layerNumbers = ({matrices, hidden}, tensor) =>
  Math.floor((matrices + 7 * hidden) / tensor) + 6 * hidden;

function layerActivations(model, tensor, tokens, size) {
  const {hidden, kv, mlp, gated, experts, perToken} = model;
  const copies = experts > 1 ? 2 * hidden : 0;
  const other = 2 * (kv - hidden) + perToken * ((2 + gated) * mlp + copies) - 8 * hidden;
  const masks = 2 * hidden;
  return tokens * ((16 * size + 2) * hidden + size * other - masks) / tensor;
}

function compute(settings) {
  const [name, card, data, tensor, pipeline, stage, precision, recompute, sequences] =
    Object.values(settings);
  const model = facts.models[name], each = facts.bytes[precision], room = facts.room[card];
  const [size, ofGradients] = each, ranks = upTo(pipeline);
  const edge = rank => Math.floor(model.layers * rank / pipeline);
  const layers = ranks.map(rank => edge(rank + 1) - edge(rank));
  const tokens = model.sequence * sequences;
  const all = layerActivations(model, tensor, tokens, size);
  const kept = recompute === "full" ? size * tokens * model.hidden : all;
  const largest = Math.min(layerNumbers(model, tensor), 1e9);
  const lent = (stage > 1 ? ofGradients : 0) + (stage > 2 ? 2 * size : 0);
  const numbers = numbersOfRanks(model, tensor, layers);
  const rows = Object.fromEntries(ranks.map(rank => {
    const logits = rank === pipeline - 1 ? 4 * tokens * model.vocabulary / tensor : 0;
    const again = recompute === "full" ? all - kept : 0;
    const most = (pipeline - rank) * Math.max(...layers) * kept;  // 1F1B's forwards
    return [`rank ${rank}`, [
      ...stateBytes(numbers[rank], data, stage, each), data > 1 ? lent * largest : 0,
      Math.round(most + again + logits),
    ]];
  }));
  const fullest = Math.max(...Object.values(rows).map(sum));
  const gpus = counted(data * tensor * pipeline, "GPU", "GPUs");
  const said = `${name} on ${gpus}: the fullest needs ` +
    `${gigabytes(fullest)}, and ${card} has room for ${gigabytes(room)}: it ` +
    `${fullest <= room ? "fits" : "does not fit"}.`;
  return {rows, room, said};
}

touch(compute, drawBars);
