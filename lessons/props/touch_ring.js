// Who holds what, and how large a chunk is, has been computed in Python.

function compute({ranks, step}) {
  const held = facts.held[ranks], most = held.length - 1, now = Math.min(step, most);
  const half = most / 2, sent = now * facts.chunk[ranks];
  const phase = now === 0 ? "At first" : now <= half ? `Reduce-scatter, step ${now} of ` +
    `${half}` : `All-gather, step ${now - half} of ${half}`;
  const done = sum(held[now].flat().map(count => count === ranks));
  const said = `${phase}: each rank has sent ${grouped(sent)} bytes; its tensor has ` +
    `${grouped(ranks * facts.chunk[ranks])}. ${done} of ${ranks * ranks} chunks add up ` +
    `all ${ranks} ranks.`;
  return {
    held: held[now], before: held[Math.max(now - 1, 0)], sent, done, said,
    last: {step: most},
  };
}

function drawRing({held, before}, width) {
  const ranks = held.length, left = 50, wide = Math.min(60, (width - left) / ranks);
  const heads = upTo(ranks).map(chunk =>
    `<text class="in" x="${left + (chunk + 0.5) * wide}" y="8">${chunk}</text>`);
  const rows = held.map((counts, rank) => {
    const y = 18 + 30 * rank;
    return letters(0, y + 13, `rank ${rank}`) + counts.map((count, chunk) => {
      const all = count === ranks, x = left + chunk * wide;
      const shade = all ? 255 : Math.round(40 + 110 * count / ranks);
      const fill = facts.colours[chunk % 4] + shade.toString(16);
      const arrived = count !== before[rank][chunk];
      return box(x, y, wide - 3, 26, fill, count, all ? "white" : "black") + (arrived ?
        `<rect x="${x + 1}" y="${y + 1}" width="${wide - 5}" height="24" fill="none"
         stroke="black" stroke-width="2"/>` : "");
    }).join("");
  });
  return svg(width, 18 + 30 * ranks, letters(0, 8, "chunk") + heads.join("") +
    rows.join(""));
}

touch(compute, drawRing);
