function compute(settings) {
  const [billions, ranks, precision, card] = Object.values(settings);
  const numbers = Math.round(billions * 1e9), room = facts.memory[card];
  const each = facts.bytes[precision];
  const rows = Object.fromEntries(facts.strategies.map((name, stage) =>
    [name, stateBytes(numbers, ranks, stage, each)]));
  const fitting = Object.keys(rows).filter(name => sum(rows[name]) <= room);
  const fit = fitting.length ? `fits on ${card} with ${fitting.join(", ")}` :
    `does not fit on ${card}, with DDP or any stage of ZeRO`;
  const needs = Object.keys(rows).map(name => `${name} ${gigabytes(sum(rows[name]))}`);
  const said = `${billions} billion parameters on ${counted(ranks, "rank", "ranks")}: the ` +
    `training state ${fit}. Each rank holds: ${needs.join(", ")}.`;
  return {rows, room, said};
}

touch(compute, drawBars);
