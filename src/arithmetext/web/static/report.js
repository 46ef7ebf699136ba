// The loss curve of a run, which follows the run while it trains.

import { address, getJson, sentence } from "./api.js";
import { showError, svg } from "./dom.js";

const POLL = { training: 2000, interrupted: 10000 }; // milliseconds; a finished run stays as it is
const MARGIN = { top: 10, right: 10, bottom: 30, left: 52 };

const figure = document.getElementById("curve");
const plot = figure.querySelector(".plot");
const form = figure.querySelector("form");
const slider = document.getElementById("place");
const readout = document.getElementById("readout");

let run = null; // the last answer
let losses = []; // [step, loss], increasing steps
let place = 1; // of the cursor: from 0, the left end of the axis, to 1

/** Fetch what is new, draw it, and plan the next time. */
async function follow() {
  try {
    let answer = await getJson(address(figure.dataset.api, { after: losses.at(-1)?.[0] ?? 0 }));
    if (run && answer.curve !== run.curve) {
      answer = await getJson(figure.dataset.api);
      losses = [];
    }
    losses = [...losses.filter(([step]) => step <= answer.after), ...answer.loss];
    run = answer;
    show();
  } catch (error) {
    showError(document.getElementById("error"), sentence(error));
  }
  if (run?.state !== "finished") setTimeout(follow, POLL[run?.state ?? "interrupted"]);
}

function show() {
  showError(document.getElementById("error"), null);
  const state = document.getElementById("state");
  if (state.textContent !== run.state) {
    state.textContent = run.state;
    state.className = `state ${run.state}`;
  }
  const values = document.querySelectorAll("#facts dd");
  Object.values(run.facts).forEach((value, i) => (values[i].textContent = value));
  document.getElementById("model").hidden = !run.has_model;
  document.getElementById("mean").textContent =
    run.mean_of > 1 ? ` (each point is the mean of ${run.mean_of} steps)` : "";
  draw();
}

/** The scales from steps and losses to places in the picture. */
function scales() {
  const width = plot.clientWidth;
  const height = plot.clientHeight;
  const log = new FormData(form).get("scale") === "log";
  const all = [...losses, ...run.validation].map(([, loss]) => loss);
  const [low, high] = all.length ? [Math.min(...all), Math.max(...all)] : [0, 1];
  const y = ticks(low, high > low ? high : low + 1, 5);
  const bottom = Math.min(low, y[0]);
  const top = Math.max(high, y.at(-1));
  const right = width - MARGIN.right;
  const floor = height - MARGIN.bottom;
  // The axis ends at the last step of the run, or at a half, a quarter, … that holds all so far.
  let last = run.state === "training" ? run.steps : Math.max(run.step, 1);
  while (last / 2 >= Math.max(run.step, 1)) last /= 2;
  last = Math.max(last, 2);
  const position = log
    ? (step) => Math.log(Math.max(step, 1)) / Math.log(last)
    : (step) => step / last;
  return {
    right,
    floor,
    place: position,
    x: (step) => MARGIN.left + (right - MARGIN.left) * position(step),
    y: (loss) => MARGIN.top + ((floor - MARGIN.top) * (top - loss)) / (top - bottom || 1),
    xTicks: log ? powers(last) : ticks(0, last, width < 500 ? 3 : 6),
    yTicks: y,
  };
}

function draw() {
  if (!run) return;
  const at = scales();
  const picture = svg("svg", { role: "img", "aria-label": summary() });
  for (const step of at.xTicks) {
    picture.append(
      svg("path", { class: "grid", d: `M${at.x(step)} ${MARGIN.top}V${at.floor}` }),
      svg("text", { x: at.x(step), y: at.floor + 20, "text-anchor": "middle" }, shown(step)),
    );
  }
  const digits = Math.max(0, ...at.yTicks.map((loss) => (`${loss}`.split(".")[1] ?? "").length));
  for (const loss of at.yTicks) {
    picture.append(
      svg("path", { class: "grid", d: `M${MARGIN.left} ${at.y(loss)}H${at.right}` }),
      svg("text", { x: MARGIN.left - 8, y: at.y(loss) + 4, "text-anchor": "end" }, loss.toFixed(digits)),
    );
  }
  const line = losses.map(([step, loss]) => `${at.x(step).toFixed(1)} ${at.y(loss).toFixed(1)}`);
  const dots = run.validation.map(([step, loss]) =>
    svg("circle", { cx: at.x(step), cy: at.y(loss), r: 4 }),
  );
  picture.append(
    svg("path", { class: "training", d: line.length ? `M${line.join("L")}` : "" }),
    svg("g", { class: "validation" }, ...dots),
    svg("path", { class: "cursor" }),
  );
  plot.replaceChildren(picture);
  point();
}

/** Move the cursor to its place, and say what is there. */
function point() {
  const at = scales();
  const chosen = nearest(losses, at);
  const cursor = plot.querySelector(".cursor");
  if (!chosen) {
    readout.textContent = run.state === "training" ? "The first step has not ended yet." : "No step was recorded.";
    return;
  }
  cursor.setAttribute("d", `M${at.x(chosen[0])} ${MARGIN.top}V${at.floor}`);
  const validation = run.validation.findLast(([step]) => step <= chosen[0]);
  readout.textContent =
    `Step ${chosen[0].toLocaleString("en")}: training loss ${chosen[1].toFixed(4)}` +
    (validation
      ? `; validation loss ${validation[1].toFixed(4)} at step ${validation[0].toLocaleString("en")}`
      : "");
  slider.setAttribute("aria-valuetext", readout.textContent);
}

function nearest(points, at) {
  let best = null;
  for (const each of points) {
    if (!best || Math.abs(at.place(each[0]) - place) <= Math.abs(at.place(best[0]) - place)) best = each;
  }
  return best;
}

function summary() {
  if (!losses.length) return "No losses yet";
  const [first, last] = [losses[0], losses.at(-1)];
  return `Training loss from ${first[1].toFixed(3)} at step ${first[0]} to ${last[1].toFixed(3)} at step ${last[0]}`;
}

/** About `count` round numbers that cover a range. */
function ticks(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((each) => each * power >= rough) * power;
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) {
    found.push(Number((i * step).toFixed(digits)));
  }
  return found;
}

function powers(last) {
  const found = [];
  for (let step = 1; step <= last; step *= 10) found.push(step);
  return found;
}

function shown(step) {
  return step >= 1e6 ? `${step / 1e6}M` : step >= 1e4 ? `${step / 1e3}k` : step.toLocaleString("en");
}

plot.addEventListener("pointermove", (event) => {
  if (!run) return;
  const box = plot.getBoundingClientRect();
  const width = box.width - MARGIN.left - MARGIN.right;
  place = Math.min(1, Math.max(0, (event.clientX - box.left - MARGIN.left) / width));
  slider.value = Math.round(1000 * place);
  point();
});
slider.addEventListener("input", () => {
  place = slider.value / 1000;
  if (run) point();
});
form.addEventListener("change", () => {
  const scale = new FormData(form).get("scale");
  history.replaceState(null, "", scale === "log" ? "?scale=log" : location.pathname);
  draw();
});
new ResizeObserver(draw).observe(plot);
follow();
