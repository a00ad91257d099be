// The plans of schedules.py, the timetable of schedule_rules.py.

function planOf(kind, ranks, microbatches) {
  const thin = kind === "interleaved" ? 2 : 1;
  const groups = thin > 1 ? Math.max(1, Math.floor(microbatches / ranks)) : 1;
  if (microbatches % groups) throw Error(`interleaving ${ranks} ranks takes ` +
    `${microbatches} micro-batches in groups of at least ${ranks}: ` +
    `it needs a multiple of ${groups}`);
  const size = microbatches / groups;
  const passes = upTo(groups).flatMap(group => upTo(thin).flatMap(chunk =>
    upTo(size).map(m => [chunk, group * size + m])));
  const returns = passes.map(([chunk, m]) => [thin - 1 - chunk, m]);
  const runAhead = {
    "naive": () => 0,
    "gpipe": () => microbatches,
    "1f1b": rank => ranks - 1 - rank,
    "interleaved": rank => 2 * (ranks - 1 - rank) + size,
    "zero-bubble": rank => ranks - 1 - rank,
  }[kind];
  return upTo(ranks).map(rank => {
    const written = letter => ([chunk, m]) =>
      `${thin > 1 ? chunk * ranks + rank : ""}${letter}${m}`;
    const forwards = passes.map(written("F")), backwards = returns.map(written("B"));
    const ahead = Math.min(runAhead(rank), forwards.length);
    const order = forwards.slice(0, ahead);
    forwards.slice(ahead).forEach((one, i) => order.push(one, backwards[i]));
    order.push(...backwards.slice(forwards.length - ahead));
    return kind === "zero-bubble" ? withWeights(order, rank, microbatches) : order;
  });
}

function withWeights(order, rank, microbatches) {  // each W as late as its rank's number
  const late = order.flatMap(one => {
    const done = one[0] === "B" ? Number(one.slice(1)) : -1;
    return done >= rank ? [one, `W${done - rank}`] : [one];
  });
  const left = Math.max(microbatches - rank, 0);
  return [...late, ...upTo(microbatches - left).map(m => `W${left + m}`)];
}

function readInstruction(instruction, rank) {
  const [, stage, kind, m] = instruction.match(/(\d*)([FBW])(\d+)/);
  return {kind, stage: stage === "" ? rank : Number(stage), m};
}

function timetable(plan, times) {
  const last = times.F.length - 1, done = {}, slots = [];
  const free = plan.map(() => 0), at = plan.map(() => 0);
  for (let moving = true; moving;) {
    moving = false;
    plan.forEach((order, rank) => {
      for (; at[rank] < order.length; at[rank]++) {
        const {kind, stage, m} = readInstruction(order[at[rank]], rank);
        const before = {
          F: stage > 0 ? [`F${stage - 1}`] : [],
          B: stage < last ? [`F${stage}`, `B${stage + 1}`] : [`F${stage}`],
          W: [`B${stage}`],
        }[kind].map(work => done[`${work},${m}`]);
        if (before.includes(undefined)) return;
        const start = Math.max(free[rank], ...before);
        free[rank] = done[`${kind}${stage},${m}`] = start + times[kind][stage];
        slots.push([start, free[rank], rank, order[at[rank]]]);
        moving = true;
      }
    });
  }
  return slots;
}

function mostKept(order) {
  const frees = order.some(one => one.includes("W")) ? "W" : "B";
  let kept = 0;
  return Math.max(...order.map(one =>
    kept += one.includes("F") ? 1 : one.includes(frees) ? -1 : 0));
}

function compute(settings) {
  const [kind, ranks, microbatches, ratio, slow] = Object.values(settings);
  let plan;
  try {
    plan = planOf(kind, ranks, microbatches);
  } catch (problem) {
    return {problem: problem.message, said: `No such plan: ${problem.message}.`};
  }
  const thin = kind === "interleaved" ? 2 : 1, parts = kind === "zero-bubble" ? 2 : 1;
  const slows = {first: 0, middle: Math.floor(ranks / 2), last: ranks - 1}[slow];
  const F = upTo(thin * ranks).map(stage => (stage % ranks === slows ? 2 : 1) / thin);
  const B = F.map(time => ratio * time / parts);
  const slots = timetable(plan, {F, B, W: B});
  const length = Math.max(...slots.map(slot => slot[1]));
  const idle = upTo(ranks).map(rank => 1 - sum(slots.map(([start, end, lane]) =>
    lane === rank ? end - start : 0)) / length);
  const bubble = sum(idle) / ranks, kept = plan.map(mostKept);
  const said = `${kind}, ${thin > 1 ? "2 × " : ""}${ranks} stages, ` +
    `${counted(microbatches, "micro-batch", "micro-batches")}: ${length} slots, bubble ` +
    `${(100 * bubble).toFixed(1)} %. Most ` +
    `${thin > 1 ? "half-size pieces" : "micro-batches"} kept, by rank: ` +
    `${kept.join(", ")}.`;
  const text = [`# ${said}`, ...plan.map(order => order.join(" "))].join("\n") + "\n";
  return {plan, slots, length, idle, bubble, kept, said, text};
}

function drawLanes({slots, length, idle, kept, problem, text = ""}, width) {
  written.textContent = text;
  save.disabled = Boolean(problem);
  if (problem) return "";
  const [blue, orange, green] = facts.colours, [pale, peach] = facts.light;
  const colours = {F: blue, B: orange, W: green}, thin = {F: pale, B: peach};
  const left = 46, right = width - 72, slot = (right - left) / length, ranks = idle.length;
  const lane = rank => 18 + 26 * rank;
  const lanes = idle.map((share, rank) => letters(0, lane(rank) + 11, `rank ${rank}`) +
    box(left, lane(rank), right - left, 22, facts.idle) +
    letters(right + 6, lane(rank) + 11, `${Math.round(100 * share)} %`) +
    letters(right + 48, lane(rank) + 11, kept[rank]));
  const bars = slots.map(([start, end, rank, instruction]) => {
    const {kind, stage, m} = readInstruction(instruction, rank), light = stage >= ranks;
    return box(left + start * slot, lane(rank), (end - start) * slot, 22,
      (light ? thin : colours)[kind], m, light ? "black" : "white");
  });
  const heads = letters(left, 8, `${length} slots`) + letters(right + 6, 8, "idle") +
    letters(right + 40, 8, "keeps");
  const kinds = {forward: blue, backward: orange};
  if (slots.some(slot => slot[3].includes("W"))) kinds.weights = green;
  return key(kinds) + svg(width, lane(ranks) + 2, heads + lanes.join("") + bars.join(""));
}

const save = document.createElement("button"), written = document.createElement("pre");
save.textContent = "Save as plan.txt";
save.onclick = () => {
  const link = document.createElement("a");
  link.download = "plan.txt";
  link.href = `data:text/plain;charset=utf-8,${encodeURIComponent(written.textContent)}`;
  link.click();
};
const details = document.createElement("details");
details.innerHTML = "<summary>The plan as text</summary>";
details.append(written);
touch(compute, drawLanes).append(save, details);
