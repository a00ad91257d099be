// The formula of ledger.py, and a bar for each row of a ledger, against a card.

function stateBytes(numbers, ranks, stage, ofEach) {
  const shard = Math.ceil(numbers / ranks), whole = stage > 0 ? shard * ranks : numbers;
  return ofEach.map((size, part) => size * (part >= 3 - stage ? shard : whole));
}

function drawBars({rows, room}, width) {
  const colours = facts.parts.map((_, part) => facts.colours[part]);
  const kinds = Object.fromEntries(facts.parts.map((part, i) => [part, colours[i]]));
  const left = 56, right = width - 80, totals = Object.values(rows).map(sum);
  const scale = (right - left) / Math.max(room, ...totals);
  const names = Object.keys(rows), bottom = 20 + 26 * names.length;
  const bars = names.map((name, row) => {
    const y = 20 + 26 * row;
    let x = left;
    return letters(0, y + 11, name) + rows[name].map((size, part) => {
      const bar = box(x, y, size * scale, 22, colours[part]);
      x += size * scale;
      return bar;
    }).join("") + letters(right + 6, y + 11, gigabytes(totals[row]));
  });
  const edge = left + room * scale, before = edge > width / 2;
  const line = `d="M${edge} 2V${bottom}" stroke-width="2"`;
  const card = `<path ${line} stroke="white"/><path ${line} stroke="black"
    stroke-dasharray="4 3"/><text x="${edge + (before ? -5 : 5)}" y="8"
    text-anchor="${before ? "end" : "start"}">room: ${gigabytes(room)}</text>`;
  return key(kinds) + svg(width, bottom + 2, bars.join("") + card);
}
