// Locate words, and show what is known of the residues of n after each prime.

import { address, getJson, getLines, sentence } from "./api.js";
import { element, showError } from "./dom.js";
import { onReturn, pushAddress, replaceAddress } from "./steps.js";
import { drawTree } from "./tree.js";

const SURE = 0.99; // from this probability on a residue counts as known
const STEP_TIME = 400; // ms for each step while the search is played
const byId = (id) => document.getElementById(id);
const form = byId("search");
const digits = (n) => BigInt(n).toLocaleString("en");
const amount = new Intl.NumberFormat("en", {
  notation: "compact", compactDisplay: "long", maximumSignificantDigits: 3,
});
const still = matchMedia("(prefers-reduced-motion: reduce)");

// The search. Each entry of `searches` is a range with the steps of the search through it.

let searches = [];
let running = null;
let complete = false; // all integers are ruled out but the places found

async function locate(writeAddress) {
  running?.abort();
  const controller = running = new AbortController();
  const asked = { words: form.elements.words.value, below: form.elements.below.value };
  writeAddress(address("/locate", asked));
  clear("Searching …");
  byId("stop").disabled = false;
  try {
    const lines = getLines(address("/api/locate", asked), { signal: controller.signal });
    for await (const line of lines) {
      if ("step" in line) add(line.step);
      else if ("near" in line) byId("status").textContent = "Looking for a place where few words differ …";
      else if ("answer" in line) finish(line.answer);
    }
  } catch (error) {
    if (running !== controller) return; // another search took the place of this one
    showError(byId("error"), sentence(error));
    byId("status").textContent = error.name === "AbortError" ? "Stopped." : "";
  }
  if (running === controller) {
    running = null;
    byId("stop").disabled = true;
  }
}

function clear(status) {
  pause();
  searches = [];
  complete = false;
  showError(byId("error"), null);
  byId("status").textContent = status;
  byId("places").replaceChildren();
  byId("reasons").replaceChildren();
  byId("watched").hidden = true;
}

/** Keep a step. A wider search through the same range takes the place of the one before. */
function add(step) {
  let search = searches.find((search) => search.from === step.from && search.to === step.to);
  if (!search) searches.push(search = { from: step.from, to: step.to, steps: [] });
  if (step.known.length === 1) search.steps = [];
  search.steps.push(step);
  choose(search);
  showStep(search.steps.length - 1);
}

function finish(answer) {
  complete = answer.complete;
  byId("status").textContent = answer.verdict;
  byId("places").classList.toggle("many", answer.places.length > 3);
  byId("places").replaceChildren(...answer.places.map(drawPlace));
  searches.forEach((search) => addPlaces(search, answer.places));
  const { law, near } = answer;
  if (law) byId("reasons").append(element("p", {}, law.sentence));
  if (near) byId("reasons").append(...drawNear(near));
  drawRanges(answer);
  const found = (search) => answer.places.some((n) => within(n, search));
  const shown = searches.find(found) ?? searches[0];
  if (!shown) return;
  choose(shown);
  if (still.matches) showStep(shown.steps.length - 1);
  else play();
}

/** One more step for a search that found n: what is known once the integers left were tried. */
function addPlaces(search, places) {
  const found = places.filter((n) => within(n, search));
  if (!found.length) return;
  const last = search.steps.at(-1);
  const known = last.known.map(({ p, q }) => {
    const shares = Array(p).fill(0);
    for (const n of found) shares[BigInt(n) % BigInt(p)] += 1 / found.length;
    return { p, q, shares, residue: Number(BigInt(found[0]) % BigInt(q)), share: 1 / found.length };
  });
  search.steps.push({ ...last, known, found });
}

function drawPlace(n) {
  return element(
    "li", {},
    element("a", { class: "n", href: `/n/${n}` }, digits(n)),
    element("a", { href: `/text?from=${n}` }, "the text from there"),
    element("a", { href: `/model?at=${n}` }, "a model’s continuation"),
  );
}

function drawNear({ place, differs }) {
  const rows = differs.map(({ word, there, here }) => {
    const n = String(BigInt(place) + BigInt(word - 1));
    return element(
      "tr", {},
      element(
        "th", { scope: "row" },
        element("a", { href: `/n/${n}`, "aria-label": `${word}, the word of ${n}` }, String(word)),
      ),
      element("td", { class: "pasted" }, drawTree(here), element("span", { class: "word" }, here)),
      element("td", { class: "there" }, drawTree(there), element("span", { class: "word" }, there)),
    );
  });
  const columns = ["word", "pasted", "in the text"];
  const head = columns.map((name) => element("th", { scope: "col" }, name));
  return [
    element("p", {}, `Except for ${differs.length} ${differs.length === 1 ? "word" : "words"}, this is the text at `,
      element("a", { class: "n", href: `/n/${place}` }, digits(place)), " (",
      element("a", { href: `/text?from=${place}` }, "read it"), ")."),
    element(
      "div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Words that differ" },
      element("table", { class: "differs" },
        element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows)),
    ),
  ];
}

// The residues: one search is shown, at one of its steps.

let shown = null;
let timer = null;

const within = (n, { from, to }) => BigInt(from) <= BigInt(n) && BigInt(n) <= BigInt(to);

function drawRanges({ places, too_short: tooShort }) {
  byId("ranges").replaceChildren(...searches.map((search, i) => {
    const { p, residues } = search.steps.at(-1);
    const found = places.some((n) => within(n, search));
    const tried = complete ? "ruled out by trying integers one by one"
      : tooShort ? "too many candidates remain" : "no n was found";
    const end = found ? "n is here" : residues ? tried : `ruled out by the prime ${p}`;
    const input = element("input", { type: "radio", name: "range", value: i });
    input.addEventListener("change", () => {
      pause();
      choose(search);
      showStep(search.steps.length - 1);
    });
    const range = `${digits(search.from)} to ${digits(search.to)}`;
    return element("label", {}, input, element("span", {}, `${range}: ${end}`));
  }));
}

/** Show a search: one row for each of its primes. */
function choose(search) {
  shown = search;
  byId("watched").hidden = false;
  const radio = byId("ranges").querySelector(`[value="${searches.indexOf(search)}"]`);
  if (radio) radio.checked = true;
  byId("step").max = search.steps.length - 1;
  byId("strips").replaceChildren(...search.steps.at(-1).known.map(({ p }) => element(
    "li", {},
    element("span", { class: "p" }, `mod ${p}`),
    element("span", { class: "cells", role: "img" }, ...Array.from({ length: p }, () => element("span"))),
    element("span", { class: "residue" }),
  )));
}

function showStep(k) {
  const step = shown.steps[k];
  byId("step").value = k;
  byId("step").setAttribute("aria-valuetext", step.found ? "at the end" : `after the prime ${step.p}`);
  byId("left").textContent = described(step, k === shown.steps.length - 1);
  for (const [i, row] of [...byId("strips").children].entries()) {
    const [, cells, residue] = row.children;
    const { p, q, shares, residue: r, share } = step.known[i] ?? { shares: [] };
    const sure = shares.findIndex((share) => share >= SURE);
    row.classList.toggle("new", i === step.known.length - 1 && !step.found);
    for (const [r, cell] of [...cells.children].entries()) {
      cell.style.setProperty("--share", shares[r] ?? 0);
      cell.classList.toggle("sure", r === sure);
    }
    residue.replaceChildren(sure < 0 ? "" : String(sure));
    if (q > p && share >= SURE) residue.append(element("span", { class: "power" }, `, ${r} mod ${q}`));
    cells.setAttribute("aria-label", rowInWords(cells.children.length, shares, sure));
  }
}

function described({ from, to, p, residues, integers, found }, last) {
  if (found) {
    const n = found.length > 1 ? `${found.length} of them fit` : `n = ${digits(found[0])}`;
    return `The integers left were tried one by one: ${n}.`;
  }
  if (!residues) {
    return `After the prime ${p}: no residue is left, so n is not between ${digits(from)} and ${digits(to)}.`;
  }
  return `After the prime ${p}: ${countOf(residues, "residue")} of n left, about` +
    ` ${countOf(integers, "integer")} of ${amount.format(BigInt(to) - BigInt(from) + 1n)}.` +
    (last && complete ? " None of these fits." : "");
}

function countOf(count, noun) {
  const rounded = amount.format(count < 1 ? 1 : count);
  return `${rounded} ${noun}${rounded === "1" ? "" : "s"}`;
}

function rowInWords(p, shares, sure) {
  if (sure >= 0) return `n modulo ${p} is ${sure}`;
  const possible = shares.filter((share) => share > 0).length;
  if (possible) return `n modulo ${p}: ${possible} of ${p} residues are possible`;
  return shares.length ? `n modulo ${p}: no residue is possible` : `n modulo ${p}: nothing is known yet`;
}

function play() {
  pause();
  byId("play").textContent = "Pause";
  byId("play").setAttribute("aria-label", "Pause the steps");
  showStep(0);
  timer = setInterval(() => {
    const next = Number(byId("step").value) + 1;
    if (next >= shown.steps.length) return pause();
    showStep(next);
  }, STEP_TIME);
}

function pause() {
  clearInterval(timer);
  timer = null;
  byId("play").textContent = "Play";
  byId("play").setAttribute("aria-label", "Play the steps");
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  locate(pushAddress);
});
byId("stop").addEventListener("click", () => running?.abort());
byId("play").addEventListener("click", () => (timer ? pause() : play()));
byId("step").addEventListener("input", () => {
  pause();
  showStep(Number(byId("step").value));
});
byId("example").addEventListener("click", async () => {
  running?.abort();
  const controller = running = new AbortController();
  byId("stop").disabled = true;
  clear("");
  try {
    const { words } = await getJson("/api/locate/example", controller);
    form.elements.words.value = words.join(" ");
    clear(`These ${words.length} words stand somewhere below 10^15. How large is n? Guess, then press Locate.`);
  } catch (error) {
    if (running === controller) showError(byId("error"), sentence(error));
  }
  if (running === controller) running = null;
});

/** Show the search of an address. */
function showState(state) {
  for (const name of ["words", "below"]) {
    form.elements[name].value = state.get(name) ?? form.elements[name].defaultValue;
  }
  if (state.get("words")) return locate(replaceAddress);
  running?.abort();
  clear("Nothing was searched yet.");
}

onReturn(showState);
if (new URLSearchParams(location.search).get("words")) locate(replaceAddress);
