// What all pictures share: controls, a drawing, and its result in words.
// A picture's own script calls touch(compute, draw). `compute(settings)` gives numbers,
// which tests compare with Python's, and `said`, a sentence; `draw(found, width)` an SVG.

const root = document.currentScript.parentElement;
const upTo = count => Array.from({length: count}, (_, number) => number);
const sum = numbers => numbers.reduce((a, b) => a + b, 0);
const grouped = number => number.toLocaleString("en");
const counted = (count, one, many) => `${grouped(count)} ${count === 1 ? one : many}`;
const gigabytes = size => `${(size / 1e9).toFixed(1)} GB`;

function box(x, y, width, height, fill, label = "", ink = "white") {
  const fits = 7 * String(label).length <= width;
  return `<rect x="${x}" y="${y}" width="${width}" height="${height}" fill="${fill}"
    stroke="white" stroke-width="0.6"/>` + (fits ? `<text class="in" fill="${ink}"
    x="${x + width / 2}" y="${y + height / 2}">${label}</text>` : "");
}

const letters = (x, y, text) => `<text x="${x}" y="${y}">${text}</text>`;

const key = kinds => `<p class="key">${Object.entries(kinds).map(([kind, colour]) =>
  `<span style="color: ${colour}">■ ${kind}</span>`).join("")}</p>`;

const svg = (width, height, inside) =>
  `<svg viewBox="0 0 ${width} ${height}" aria-hidden="true">${inside}</svg>`;

function control(name, offered) {
  if (typeof offered[0] !== "number") {
    const options = offered.map(word => `<option>${word}</option>`).join("");
    return `<span class="control"><label>${name}
      <select name="${name}">${options}</select></label></span>`;
  }
  const step = (by, sign, word) => `<button type="button" data-of="${name}"
    data-by="${by}" aria-label="${name}: ${word}">${sign}</button>`;
  return `<span class="control"><label>${name} <b></b><input type="range"
    name="${name}" max="${offered.length - 1}"></label>
    ${step(-1, "−", "back")}${step(1, "+", "on")}</span>`;
}

function touch(compute, draw) {
  const {choices, settings} = facts, names = Object.keys(choices);
  const panel = document.createElement("div");
  panel.className = "touch";
  panel.style.background = facts.card;
  panel.innerHTML = `<form>${names.map(name => control(name, choices[name])).join("")}
    </form><p class="said" aria-live="polite"></p><div class="picture"></div>
    <p class="stamp">computed</p>`;
  const [form, said, picture] = panel.children;
  let found;

  function read() {
    for (const name of names) {
      const input = form.elements[name], slides = input.type === "range";
      settings[name] = slides ? choices[name][input.value] : input.value;
      if (slides) {
        input.previousElementSibling.textContent = settings[name];
        input.setAttribute("aria-valuetext", settings[name]);
      }
    }
    return settings;
  }
  function show() {
    if (picture.clientWidth) picture.innerHTML = draw(found, picture.clientWidth);
  }
  function update() {
    found = compute(read());
    for (const name in found.last) form.elements[name].max = found.last[name];
    read();
    said.textContent = found.said;
    show();
  }

  for (const name of names) {
    const input = form.elements[name], place = choices[name].indexOf(settings[name]);
    input[input.type === "range" ? "value" : "selectedIndex"] = place;
  }
  form.addEventListener("input", update);
  form.addEventListener("click", ({target: {dataset}}) => {
    if (!dataset.by) return;
    form.elements[dataset.of].valueAsNumber += Number(dataset.by);
    update();
  });
  form.addEventListener("submit", event => event.preventDefault());
  root.append(panel);
  root.classList.add("live");
  root.dataset.lmSuppressShortcuts = "true";  // JupyterLab leaves the keys to us, and
  root.addEventListener("keydown", event => event.stopPropagation());  // the focus
  root.compute = compute;
  update();
  new ResizeObserver(show).observe(picture);
  return panel;
}
