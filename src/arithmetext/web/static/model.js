// A model's continuation, the oracle's guesses beside it, and the attention of one head.

import { address, getJson, getLines, sentence } from "./api.js";
import { element, showError, svg } from "./dom.js";
import { drawTree } from "./tree.js";

const $ = (id) => document.getElementById(id);
const form = $("controls");
const { model, beta, words, layer, head, fold, bound } = form.elements;
const slider = $("beta-slider");

const INFINITE = 41; // the position of the slider for β = ∞; 20 positions are a factor of 10
const CONTINUATION = ["at", "model", "words", "beta", "seed"]; // what the model's words depend on
const PAUSE = 300; // ms without a change before the model is asked again

let jobs = {}; // AbortControllers of what is being fetched
let rows = []; // what is known of each integer: { line, oracle, node }
let first = null; // n, once the server has read it
let seen = null; // the attention of the chosen head
let conclusion = null; // what the status says around the summary
let step = null; // the parameters with which this step of the history began

// ---- what the controls say

const showBeta = () => {
  const value = Number(beta.value.replace("∞", "inf").replace(/^inf$/i, "Infinity"));
  slider.value = value === Infinity ? INFINITE : Math.round(20 * (Math.log10(value) + 1));
  slider.setAttribute("aria-valuetext", value === Infinity ? "∞" : String(value));
};

const betaOfSlider = () =>
  Number(slider.value) === INFINITE
    ? "inf"
    : String(Number((10 ** (slider.value / 20 - 1)).toPrecision(2)));

const parameters = (...names) =>
  Object.fromEntries(names.map((name) => [name, form.elements[name].value.trim().replace("∞", "inf")]));

function addressOfPage(changes = {}) {
  const all = { ...parameters(...CONTINUATION, "bound", "layer", "head", "fold"), ...changes };
  const given = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== ""));
  return address("/model", given);
}

function keepAddress() {
  history.replaceState(null, "", addressOfPage());
  $("json").href = address("/api/model", parameters(...CONTINUATION));
}

/** Make another continuation a step of the history; the step before gets its own back. */
function addStep() {
  const now = parameters(...CONTINUATION);
  if (CONTINUATION.every((name) => now[name] === step[name])) return;
  history.replaceState(null, "", addressOfPage(step));
  history.pushState(null, "", addressOfPage());
  step = now;
}

/** Show what the address says, after a step back or forward. */
function goToAddress() {
  if (location.pathname + location.search === addressOfPage()) return;
  for (const [name, value] of new URLSearchParams(location.search)) {
    form.elements[name].value = form.elements[name].dataset.chosen = value;
  }
  $("words-shown").textContent = words.value;
  $("fold-shown").textContent = fold.value;
  showBeta();
  clearTimeout(timer);
  step = parameters(...CONTINUATION);
  run();
}

/** Start a job of this kind; one of the same kind that still runs is stopped. */
function signalFor(kind) {
  jobs[kind]?.abort();
  jobs[kind] = new AbortController();
  return jobs[kind].signal;
}

// ---- the continuation

async function run() {
  keepAddress();
  const signal = signalFor("words");
  jobs.attention?.abort();
  showError($("error"), null);
  $("results").hidden = false;
  first = null;
  makeRows();
  $("stop").disabled = false;
  $("status").setAttribute("aria-busy", "true");
  $("status").textContent = "Loading the model…";
  askOracle();
  try {
    let next = 0;
    const asked = parameters(...CONTINUATION);
    for await (const line of getLines(address("/api/model", asked), { signal })) {
      if (signal.aborted) break;
      if ("model" in line) showAbout(line);
      else if ("begun" in line) showBegun(rows[next], line.begun);
      else if ("n" in line) showWord(rows[next++], line);
      if (!("model" in line)) showSummary(next);
    }
    signal.throwIfAborted();
    const ended = next === rows.length ? "" : " The model did not end the next word.";
    conclude((text) => text + ended);
  } catch (error) {
    if (signal.aborted) {
      if (signal === jobs.words.signal) conclude((text) => `Stopped. ${text}`);
    } else {
      showError($("error"), sentence(error));
      $("status").textContent = "";
      $("results").hidden = !first;
    }
  } finally {
    if (signal === jobs.words.signal) {
      $("stop").disabled = true;
      $("status").removeAttribute("aria-busy");
    }
  }
}

const shown = () => rows.filter((row) => row.line).length;

function summary(count) {
  const right = rows.filter((row) => row.line?.right).length;
  if (!count) return "";
  const share = (right / count).toFixed(3);
  const guesses = rows.slice(0, count).filter((row) => row.oracle);
  const known = guesses.filter((row) => guessed(row) === row.oracle.truth).length;
  const theirs = guesses.length === count
    ? `; the oracle that knows the primes up to ${bound.value}: ${known}.` : ".";
  return `${right} of ${count} words right (${share})${theirs}`;
}

/** Say how the continuation ended, around its summary; once more when the oracle answers. */
function conclude(around) {
  conclusion = around;
  $("status").textContent = conclusion(summary(shown()));
}

function showSummary(count) {
  $("status").textContent = `Writing… ${summary(count)}`;
}

const guessed = (row) => row.oracle.likeliest[0].word;

function makeRows() {
  const count = Number(words.value);
  if (rows.length !== count) {
    rows = Array.from({ length: count }, () => ({ node: element("tr") }));
    $("rows").replaceChildren(...rows.map((row) => row.node));
  }
  document.querySelectorAll(".details").forEach((node) => node.remove());
  rows.forEach((row, i) => {
    row.line = row.oracle = null;
    row.node.className = "";
    row.node.replaceChildren(
      element("th", { scope: "row", class: "n" }, `+${i}`),
      element("td"), element("td"), element("td"), element("td"),
    );
  });
}

function showAbout(line) {
  first = BigInt(line.at);
  const cut = line.dropped
    ? ` These tokens end before the word of n − ${line.dropped} does, so the model writes from there on.` : "";
  const seen = line.trained ? " The model was trained on this text." : "";
  const reads = line.context
    ? ` It reads the last ${line.context.toLocaleString("en")} tokens before n.` : "";
  $("about").textContent = `${capital(line.model)}.${reads}${cut}${seen}`;
  $("before").replaceChildren(...line.before.map(({ n, word }) =>
    element("li", {}, element("a", { href: `/n/${n}` },
      element("span", { class: "shape" }, hidden(drawTree(word))),
      element("span", { class: "n" }, `n − ${first - BigInt(n)}`),
      element("span", { class: "word" }, word)))));
  $("before").scrollLeft = $("before").scrollWidth;
  rows.forEach((row, i) => {
    const n = first + BigInt(i);
    row.node.cells[0].replaceChildren(element("a", { href: `/n/${n}`, "aria-label": grouped(n) },
      element("span", { class: "whole" }, grouped(n)), element("span", { class: "offset" }, `+${i}`)));
  });
  offerHeads(line.attention);
}

function showBegun(row, begun) {
  row?.node.cells[2].replaceChildren(element("span", { class: "word" }, `${begun}…`));
}

function showWord(row, line) {
  row.line = line;
  row.node.className = line.right ? "right" : "wrong";
  row.node.cells[1].replaceChildren(picture(line.truth));
  const mark = element("span", { class: "mark", "aria-hidden": "true" }, line.right ? "✓" : "✗");
  const button = element("button", {
    type: "button", class: "guess", "aria-expanded": "false", onclick: () => toggle(row),
  }, element("span", { class: "cell" }, mark,
    element("span", { class: "visually-hidden" }, line.right ? "right: " : "wrong: "),
    ...pictureParts(line.prediction, line.written)));
  row.node.cells[2].replaceChildren(button);
  row.node.cells[3].replaceChildren(bar(line.probability), percent(line.probability));
}

function picture(word) {
  return element("span", { class: "cell" }, ...pictureParts(word));
}

function pictureParts(word, written) {
  const shape = element("span", { class: "shape" });
  if (word) shape.append(hidden(drawTree(word)));
  const text = word ?? `malformed: ${written || "empty"}`;
  return [shape, element("span", { class: "word" }, text)];
}

function bar(share) {
  return svg("svg", { class: "bar", viewBox: "0 0 100 1", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { width: 100 * share, height: 1 }));
}

// ---- the oracle

async function askOracle() {
  const signal = signalFor("oracle");
  $("oracle-note").textContent = "";
  rows.forEach((row) => { row.oracle = null; row.node.cells[4].replaceChildren(); });
  try {
    const answer = await getJson(address("/api/oracle", parameters("at", "words", "bound")), { signal });
    answer.words.forEach((guess, i) => showGuess(rows[i], guess));
    if (!$("status").hasAttribute("aria-busy") && shown()) conclude(conclusion);
  } catch (error) {
    if (!signal.aborted) $("oracle-note").textContent = sentence(error);
  }
}

function showGuess(row, guess) {
  row.oracle = guess;
  const { word, probability } = guess.likeliest[0];
  const right = word === guess.truth;
  row.node.cells[4].replaceChildren(
    element("span", { class: right ? "hit" : "miss" },
      element("span", { "aria-hidden": "true" }, right ? "✓ " : "✗ "),
      element("span", { class: "visually-hidden" }, right ? "right: " : "wrong: "),
      element("span", { class: "word" }, word)),
    ` ${percent(probability)}`);
  const details = row.node.nextElementSibling;
  if (details?.classList.contains("details")) details.replaceWith(detailsOf(row));
}

// ---- the details of one word

function toggle(row) {
  const open = document.querySelector(".details");
  const mine = row.node.nextElementSibling === open ? open : null;
  open?.previousElementSibling.querySelector("button").setAttribute("aria-expanded", "false");
  open?.remove();
  if (mine) return;
  row.node.after(detailsOf(row));
  row.node.querySelector("button").setAttribute("aria-expanded", "true");
}

function detailsOf(row) {
  const { line, oracle } = row;
  const tokens = line.tokens.map((token, i) => {
    const title = line.tokens.length > 1 ? `Token ${i + 1} of ${line.tokens.length}` : "The token";
    const choices = [token, ...token.others];
    return choiceTable(title, choices.map((choice) => ({
      name: visible(choice.token), probability: choice.probability, chosen: choice === token,
      right: line.tokens.length === 1 && choice.token === `${line.truth} `,
    })));
  });
  const guesses = oracle && choiceTable("The oracle", oracle.likeliest.map(({ word, probability }) => ({
    name: word, probability, chosen: word === line.prediction, right: word === oracle.truth,
  })));
  const truth = oracle && element("p", { class: "hint" },
    `The oracle gives the true word the probability ${percent(oracle.truth_probability)}.`);
  return element("tr", { class: "details" }, element("td", { colspan: 5 },
    element("p", { class: "hint" },
      `The model’s word is bold, the true word has a ✓. ␣ is the space after a word.`),
    element("div", { class: "panels" }, ...tokens,
      guesses && element("div", {}, guesses, truth))));
}

function choiceTable(title, choices) {
  return element("div", {}, element("h3", {}, title), element("table", {},
    element("tbody", {}, ...choices.map(({ name, probability, chosen, right }) =>
      element("tr", { class: chosen && "chosen" },
        element("td", { class: "word" }, name, right ? " ✓" : null),
        element("td", {}, percent(probability)),
        element("td", {}, bar(probability)))))));
}

// ---- attention

function offerHeads(sizes) {
  $("attention-section").hidden = !sizes;
  if (!sizes) return;
  const stay = (select, count, chosen) => {
    const wanted = Math.min(Number(select.value || select.dataset.chosen || chosen), count);
    select.replaceChildren(...Array.from({ length: count }, (_, i) =>
      element("option", { selected: i + 1 === wanted }, String(i + 1))));
  };
  stay(layer, sizes.layers, sizes.layers);
  stay(head, sizes.heads, 1);
  keepAddress();
  askAttention();
}

async function askAttention() {
  const signal = signalFor("attention");
  try {
    const asked = parameters("at", "model", "layer", "head");
    seen = await getJson(address("/api/attention", asked), { signal });
    $("attention-status").textContent = "";
    $("attention").hidden = false;
    drawAttention();
  } catch (error) {
    if (signal.aborted) return;
    seen = null;
    $("attention-status").textContent = sentence(error);
    $("attention").hidden = true;
  }
}

function drawAttention() {
  $("fold-shown").textContent = fold.value;
  if (!seen) return;
  const modulus = Number(fold.value);
  const { distances, weights, tokens } = seen;
  const farthest = Math.max(...distances);
  const sums = new Float64Array(farthest + 1); // by distance
  distances.forEach((distance, i) => { sums[distance] += weights[i]; });
  const highest = Math.max(...sums);
  const bars = (chosen) => Array.from(sums, (sum, distance) =>
    chosen(distance) && sum > 0 ? `M${farthest - distance + 0.5} 100V${100 - (100 * sum) / highest}` : "").join("");
  $("weights").replaceChildren(svg("svg", {
    viewBox: `0 0 ${farthest + 1} 100`, preserveAspectRatio: "none", role: "img",
    "aria-label": `Weights of the ${farthest} integers before n; the largest is ${highest.toFixed(3)}`,
  }, svg("path", { d: bars((distance) => distance % modulus) }),
    svg("path", { class: "multiples", d: bars((distance) => distance % modulus === 0) })));
  $("weights").onpointermove = (event) => {
    const box = $("weights").getBoundingClientRect();
    const place = Math.floor(((event.clientX - box.left) / box.width) * (farthest + 1));
    const distance = Math.min(farthest, Math.max(0, farthest - place));
    $("pointed").textContent = `n − ${distance}: ${sums[distance].toFixed(4)}`;
  };
  $("farthest").textContent = `n − ${farthest}`;
  drawFold(sums, modulus);
  const largest = distances.map((_, i) => i).sort((a, b) => weights[b] - weights[a]).slice(0, 12);
  const n = BigInt(seen.n);
  $("most").replaceChildren(...largest.map((i) => element("li", {},
    element("a", { href: `/n/${n - BigInt(distances[i])}` }, `n − ${distances[i]}`),
    ` ${weights[i].toFixed(3)} `, element("span", { class: "word" }, visible(tokens[i])))));
}

function drawFold(sums, modulus) {
  const folded = new Float64Array(modulus);
  sums.forEach((sum, distance) => { folded[distance % modulus] += sum; });
  const top = Math.max(...folded);
  const every = modulus > 30 ? 5 : modulus > 15 ? 2 : 1;
  $("folded").replaceChildren(...Array.from(folded, (sum, residue) => {
    const column = element("span", { class: "column" });
    column.style.height = `${(100 * sum) / top}%`;
    return element("li", { title: `${residue} mod ${modulus}: ${sum.toFixed(3)}` }, column,
      element("span", { class: "visually-hidden" }, `${residue} mod ${modulus}: ${sum.toFixed(3)}`),
      element("span", { class: "label", "aria-hidden": "true" }, residue % every ? "" : String(residue)));
  }));
  const share = element("span", { class: "share", "aria-hidden": "true" });
  share.style.bottom = `${100 / (modulus * top)}%`;
  const line = element("li", { class: "line", "aria-hidden": "true" }, share);
  $("folded").append(line);
}

// ---- small things

const grouped = (n) => n.toLocaleString("en");
const visible = (token) => token.replaceAll(" ", "␣");
const capital = (text) => text[0].toUpperCase() + text.slice(1);
const percent = (share) => (share >= 0.9995 ? "1" : share < 0.0005 ? "<0.001" : share.toFixed(3));

function hidden(node) {
  node.removeAttribute("role");
  node.removeAttribute("aria-label");
  node.setAttribute("aria-hidden", "true");
  return node;
}

let timer;
function changed(name) {
  if (name === "words") $("words-shown").textContent = words.value;
  if (name === "beta") showBeta();
  // An oracle beside itself shows nothing.
  if (name === "model" && model.value === `oracle-${bound.value}`) {
    bound.value = bound.value === "13" ? "31" : "13";
  }
  if (name === "fold") { keepAddress(); drawAttention(); return; }
  if (name === "layer" || name === "head") { keepAddress(); askAttention(); return; }
  if (name === "bound") { keepAddress(); askOracle(); return; }
  clearTimeout(timer);
  timer = setTimeout(run, PAUSE);
}

form.addEventListener("input", (event) => {
  if (event.target === slider) { beta.value = betaOfSlider(); changed("beta"); }
  else changed(event.target.name);
});
for (const control of [layer, head, fold]) control.addEventListener("input", () => changed(control.name));
form.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(timer); addStep(); run(); });
window.addEventListener("popstate", goToAddress);
$("stop").addEventListener("click", () => jobs.words?.abort());
$("rows").addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step || !event.target.matches(".guess")) return;
  const buttons = [...$("rows").querySelectorAll(".guess")];
  const next = buttons[buttons.indexOf(event.target) + step];
  if (!next) return;
  event.preventDefault();
  const wasOpen = event.target.getAttribute("aria-expanded") === "true";
  next.focus();
  if (wasOpen) next.click();
});
showBeta();
step = parameters(...CONTINUATION);
run();
