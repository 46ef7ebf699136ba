// The text, endless in both directions.
//
// All integers of a hundred form a group, and all groups are equally high. So the place of a group
// follows from its number, and nothing moves when others come or go: only those near the view are
// in the page. The region holds SPAN pixels of groups at most; when the reader comes close to its
// end, it moves along the text.

import { address, getJson, sentence } from "./api.js";
import { element, showError } from "./dom.js";
import { onReturn, pushAddress, replaceAddress } from "./steps.js";
import { drawTree, treeOf } from "./tree.js";

const SIZE = 100; // integers of a group
const [BEGIN, END] = [2n, 2n ** 63n]; // the text
const LAST_GROUP = (END - 1n) / BigInt(SIZE);
const LAST_SIZE = Number(END - LAST_GROUP * BigInt(SIZE));
const MOST_GROUPS = 5; // asked for at once
const SPAN = 8e6; // browsers allow elements twice as high
const LAYOUTS = { // in rem; the columns divide SIZE
  trees: { cell: 3.5, row: 4.4, columns: [20, 10, 5, 4, 2] },
  words: { cell: 6.5, row: 4.25, columns: [10, 5, 4, 2] },
};
const HEAD = 2; // rem
const LONG_WORD = 20; // letters: longer ones are written smaller
const MOST_DRAWINGS = 1000;

const form = document.querySelector("#controls");
const region = document.querySelector("#text");
const length = region.querySelector(".length");
const status = document.querySelector("#status");
const fields = form.elements;

const groups = new Map(); // by number: { number, node, list, words, borders }
const problems = {}; // sentences, by what they are about
let base; // the number of the group at the top of the region
let size; // { columns, row, head, group, span }: pixels, and the number of groups in the region
let start = BigInt(fields.from.value); // the integer that the reader went to
let startTop; // where the region is scrolled then
let tokens = "none"; // the tokenizer that is loaded, of those to be shown
let marks;

// Highlights.

/** Read the fields; only finished ones are found wrong, and r without m once both are left. */
function readMarks(finished, left = false) {
  const word = fields.word.value.trim();
  const wrong = word && !treeOf(word);
  report("word", finished && wrong
    && `${word} is not a Dyck word: write one such as 1100 or 110010.`);
  const [r, m] = [fields.r.value.trim(), fields.m.value.trim()];
  const most = Number(fields.m.dataset.most);
  const inRange = [r, m].every((text) => /^\d+$/.test(text)) && +r < +m && +m <= most;
  report("residue", finished && (left ? r || m : r && m) && !inRange
    && `For n ≡ r mod m, write m from 1 to ${most.toLocaleString("en")} and r from 0 to m − 1.`);
  const boxes = [...form.querySelectorAll("[name=mark]:checked")].map((box) => box.value);
  marks = {
    primes: boxes.includes("primes") && { name: "prime", holds: ({ word }) => word === "10" },
    "square-free": boxes.includes("square-free")
      && { name: "square-free", holds: ({ word }) => /^(10)*$/.test(word) },
    chosen: word && !wrong && { name: "chosen word", holds: (n) => n.word === word },
    residue: inRange && { name: `≡ ${r} mod ${m}`, holds: ({ value }) => value(+m) === +r },
  };
}

/** The integers of a group that are there, with what their highlights depend on. */
function* integers(group) {
  const first = firstOf(group.number);
  const rests = new Map(); // of the first integer, by modulus
  const rest = (m) => rests.get(m) ?? rests.set(m, Number(first % BigInt(m))).get(m);
  for (const [k, word] of (group.words ?? []).entries()) {
    yield { k, n: first + BigInt(k), word, value: (m) => (rest(m) + k) % m };
  }
}

function activeMarks() {
  return Object.entries(marks).filter(([, mark]) => mark);
}

function dress(group) {
  for (const integer of integers(group)) {
    const cell = group.list.children[integer.k];
    const held = activeMarks().filter(([, mark]) => mark.holds(integer));
    for (const name of Object.keys(marks)) {
      cell.classList.toggle(name, held.some(([other]) => other === name));
    }
    const names = [integer.n, integer.word, ...held.map(([, mark]) => mark.name)];
    if (group.borders) names.push(cutWord(integer.word, group.borders[integer.k]));
    cell.querySelector("a").setAttribute("aria-label", names.join(", "));
    const pressed = held.some(([name]) => name === "chosen");
    cell.querySelector("button").setAttribute("aria-pressed", pressed);
  }
}

/** A word in its tokens, for those who cannot see the bars. */
function cutWord(word, places) {
  const inside = places.filter((place) => place > 0 && place < word.length);
  if (!inside.length) return "not cut";
  return `cut as ${[0, ...inside].map((a, i) => word.slice(a, inside[i])).join(" | ")}`;
}

function showCounts() {
  const [first, end] = inView();
  const shown = [...groups.values()].flatMap((group) => [...integers(group)])
    .filter(({ n }) => n >= first && n < end);
  document.querySelector("#range").textContent = `${end - first} integers in view`;
  for (const place of form.querySelectorAll("[data-count]")) {
    const mark = marks[place.dataset.count];
    place.textContent = mark ? `${shown.filter(mark.holds).length} of ${shown.length}` : "";
  }
}

// Cells.

const drawings = new Map();

function drawing(word) {
  if (drawings.size > MOST_DRAWINGS) drawings.clear();
  if (!drawings.has(word)) drawings.set(word, drawTree(word));
  return drawings.get(word).cloneNode(true);
}

/** The digits of a word in runs of equal depth and token; `token` says whether it is an odd one. */
function spell(word, places, token) {
  const runs = [];
  let depth = 0;
  [...word, ...(places ? ["·"] : [])].forEach((letter, place) => {
    if (letter === "1") depth += 1;
    const begins = places?.includes(place);
    if (begins) token.odd = !token.odd;
    const kind = `depth-${letter === "·" ? 0 : depth}`;
    const last = runs.at(-1);
    if (last?.kind === kind && !begins) last.text += letter;
    else runs.push({ kind, begins, odd: token.odd, text: letter });
    if (letter === "0") depth -= 1;
  });
  return runs.map(({ kind, begins, odd, text }) => element("span", {
    class: `${kind}${places ? " token" : ""}${begins ? " begins" : ""}${odd ? " other" : ""}`,
  }, text));
}

function show(group) {
  const token = { odd: false };
  const { activeElement } = document;
  const focused = [...group.list.children].findIndex((cell) => cell.contains(activeElement));
  group.list.replaceChildren(...[...integers(group)].map(({ n, k, word }) => {
    const small = view() === "words" && word.length > LONG_WORD;
    const label = n < 10_000n ? String(n) : `…${String(n).slice(-3)}`;
    const content = view() === "trees" ? [drawing(word)] : spell(word, group.borders?.[k], token);
    const current = n === start && "true";
    const link = { href: `/n/${n}`, class: "n", title: digits(n), "aria-current": current };
    const button = { type: "button", "data-word": word, "aria-label": `Highlight ${word}` };
    return element("li", { class: `${small ? "long" : ""} ${n === BEGIN ? "skip-2" : ""}` },
      element("a", link, label), element("button", button, ...content));
  }));
  dress(group);
  if (focused >= 0) {
    group.list.children[focused].querySelector(activeElement.localName).focus({ preventScroll: true });
  }
}

// Groups.

function firstOf(number) {
  const first = number * BigInt(SIZE);
  return first < BEGIN ? BEGIN : first;
}

function addGroup(number) {
  const from = number * BigInt(SIZE);
  const id = `from-${from}`;
  const last = from + BigInt(SIZE) > END ? END - 1n : from + BigInt(SIZE - 1);
  const list = element("ul", { class: "cells", role: "list", "aria-labelledby": id });
  const node = element("div", { class: "group" },
    element("h2", { id }, `${digits(firstOf(number))} … ${String(last).slice(-3)}`,
      number === LAST_GROUP ? ", where the text ends" : ""), list);
  const group = { number, node, list, words: null, borders: null };
  put(group);
  groups.set(number, group);
  const after = [...groups.values()].filter((other) => other.number > number);
  const next = after.sort((a, b) => Number(a.number - b.number))[0];
  length.insertBefore(node, next?.node ?? null);
}

function removeGroup(group) {
  if (group.node.contains(document.activeElement)) region.focus({ preventScroll: true });
  group.node.remove();
  groups.delete(group.number);
}

function put(group) {
  group.node.style.top = `${Number(group.number - base) * size.group}px`;
  group.node.style.height = `${size.group}px`;
}

/** Measure the region, put n at its top, and show what is around n. */
function place(n) {
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  const { cell, row, columns } = LAYOUTS[view()];
  const count = columns.find((c) => length.clientWidth >= c * cell * rem) ?? columns.at(-1);
  size = { columns: count, row: Math.round(row * rem), head: Math.round(HEAD * rem) };
  size.group = size.head + (SIZE / count) * size.row;
  const all = LAST_GROUP + 1n;
  const fitting = BigInt(Math.floor(SPAN / size.group));
  size.span = Number(all < fitting ? all : fitting);
  region.classList.toggle("words", view() === "words");
  region.style.setProperty("--columns", size.columns);
  region.style.setProperty("--row", `${size.row}px`);
  region.style.setProperty("--head", `${size.head}px`);
  setBase(n / BigInt(SIZE));
  start = n;
  region.scrollTop = topOf(n);
  startTop = region.scrollTop;
  update();
  for (const group of groups.values()) show(group);
}

function topOf(n) {
  const row = Math.floor(Number(n % BigInt(SIZE)) / size.columns);
  return Number(n / BigInt(SIZE) - base) * size.group + row * size.row;
}

/** Let the region cover the groups around this one. */
function setBase(number) {
  const highest = LAST_GROUP + 1n - BigInt(size.span);
  const wanted = number - BigInt(Math.floor(size.span / 2));
  base = wanted < 0n ? 0n : wanted > highest ? highest : wanted;
  const unused = base === highest ? Math.floor((SIZE - LAST_SIZE) / size.columns) * size.row : 0;
  length.style.height = `${size.span * size.group - unused}px`;
  for (const group of groups.values()) put(group);
}

function moveAlong() {
  const margin = 4 * region.clientHeight;
  const above = region.scrollTop < margin && base > 0n;
  const below = region.scrollTop > size.span * size.group - 2 * margin
    && base + BigInt(size.span) <= LAST_GROUP;
  if (!above && !below) return;
  const before = base;
  setBase(base + BigInt(Math.floor(region.scrollTop / size.group)));
  const shift = Number(before - base) * size.group;
  startTop += shift;
  region.scrollTop += shift;
}

/** The first integer of the highest row in view, and the one after the lowest row. */
function inView() {
  const at = (y, head) => {
    const number = Math.floor(y / size.group);
    const rows = Math.round((y - number * size.group - head) / size.row);
    const k = Math.min(SIZE, Math.max(0, rows * size.columns));
    return (base + BigInt(number)) * BigInt(SIZE) + BigInt(k);
  };
  const first = at(region.scrollTop, 0);
  const end = at(region.scrollTop + region.clientHeight, size.head);
  return [first < BEGIN ? BEGIN : first, end > END ? END : end];
}

/** Have the groups around the view in the page, and no others. */
function update() {
  moveAlong();
  const groupAt = (y) =>
    base + BigInt(Math.min(size.span - 1, Math.max(0, Math.floor(y / size.group))));
  const bottom = region.scrollTop + region.clientHeight;
  const around = (margin) => [groupAt(region.scrollTop - margin), groupAt(bottom + margin)];
  const [low, high] = around(region.clientHeight);
  const [lowest, highest] = around(2 * region.clientHeight);
  for (const group of groups.values()) {
    if (group.number < lowest || group.number > highest) removeGroup(group);
  }
  for (let number = low; number <= high; number++) if (!groups.has(number)) addGroup(number);
  showCounts();
  saveAddress();
  load();
}

// Words and borders of tokens from the server.

let loading = false;

async function load() {
  if (loading) return;
  loading = true;
  try {
    for (let due; (due = nextDue()).length;) {
      const asked = tokens;
      const first = firstOf(due[0].number);
      const count = Number((due.at(-1).number + 1n) * BigInt(SIZE) - first);
      const answer = await getJson(address("/api/text", { from: first, count, tokens: asked }));
      for (const group of due) {
        const from = Number(firstOf(group.number) - first);
        const to = Number((group.number + 1n) * BigInt(SIZE) - first);
        group.words = answer.words.slice(from, to);
        group.borders = asked === tokens ? answer.borders?.slice(from, to) ?? null : null;
        if (groups.get(group.number) === group) show(group);
      }
      showCounts();
    }
    report("load", null);
  } catch (error) {
    report("load", sentence(error));
  } finally {
    loading = false;
  }
}

/** Consecutive groups that need words or borders, beginning with the one nearest to the view. */
function nextDue() {
  const middle = region.scrollTop + region.clientHeight / 2 - size.group / 2;
  const distance = ({ number }) => Math.abs(Number(number - base) * size.group - middle);
  const lacks = (group) => group && (!group.words || (tokens !== "none" && !group.borders));
  const lacking = [...groups.values()].filter(lacks).sort((a, b) => distance(a) - distance(b));
  if (!lacking.length) return [];
  const due = [lacking[0]];
  while (due.length < MOST_GROUPS) {
    const next = groups.get(due.at(-1).number + 1n);
    if (!lacks(next)) break;
    due.push(next);
  }
  return due;
}

let waiting = new AbortController();

/** Show the chosen tokens, if words are shown; the tokenizer may have to be trained first. */
async function loadTokenizer() {
  const name = view() === "words" ? fields.tokens.value : "none";
  waiting.abort();
  waiting = new AbortController();
  setTokens("none");
  report("tokens", null);
  status.textContent = "";
  if (name === "none") return;
  status.textContent = `Preparing the tokenizer ${name}: a few seconds the first time…`;
  try {
    await getJson(address("/api/text", { count: 1, tokens: name }), waiting);
    status.textContent = `A bar stands where a token of ${name} begins; a dot is the space.`;
    setTokens(name);
  } catch (error) {
    if (error.name === "AbortError") return;
    status.textContent = "";
    report("tokens", sentence(error));
  }
}

function setTokens(name) {
  if (name === tokens) return;
  tokens = name;
  for (const group of groups.values()) {
    group.borders = null;
    if (name === "none") show(group);
  }
  load();
}

// The form and the address.

function view() {
  return fields.view.value;
}

function digits(n) {
  return n.toLocaleString("en");
}

function report(what, problem) {
  problems[what] = problem || null;
  showError(document.querySelector("#error"), Object.values(problems).find(Boolean));
}

/** The integer at the top: the one gone to, as long as the reader has not scrolled since. */
function top() {
  return Math.abs(region.scrollTop - startTop) < 2 ? start : inView()[0];
}

let saving;

function saveAddress() {
  clearTimeout(saving);
  saving = setTimeout(() => writeAddress(replaceAddress), 300);
}

/** Write the state of the page to its address; highlights that are wrong are no part of it. */
function writeAddress(write) {
  clearTimeout(saving);
  const n = top();
  if (document.activeElement !== fields.from) fields.from.value = n;
  const shown = {
    view: view() !== "trees", tokens: fields.tokens.value !== "none", mark: true,
    word: marks.chosen, r: marks.residue, m: marks.residue,
  };
  const state = [...new FormData(form)].filter(([name]) => shown[name]);
  write(`/text?${new URLSearchParams([["from", n], ...state])}`);
  document.title = `The text from ${n} · arithmetext`;
  document.querySelector("#json").href = address("/api/text", { from: n, count: SIZE });
}

/** Jump to an integer; Back returns to the place before. */
function goTo(n) {
  report("from", null);
  writeAddress(replaceAddress);
  place(n < BEGIN ? BEGIN : n >= END ? END - 1n : n);
  writeAddress(pushAddress);
}

onReturn((state) => {
  fields.view.value = state.get("view") ?? "trees";
  fields.tokens.value = state.get("tokens") ?? "none";
  for (const name of ["word", "r", "m"]) fields[name].value = state.get(name) ?? "";
  for (const box of form.querySelectorAll("[name=mark]")) {
    box.checked = state.getAll("mark").includes(box.value);
  }
  readMarks(true);
  place(BigInt(state.get("from")));
  fields.from.value = start;
  loadTokenizer();
});

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  changeMarks(true, true);
  if (fields.from.value === String(top())) return;
  try {
    const answer = await getJson(address("/api/text", { from: fields.from.value, count: 1 }));
    goTo(BigInt(answer.from));
    region.focus({ preventScroll: true });
  } catch (error) {
    report("from", sentence(error));
  }
});

const JUMPS = {
  divide: (n) => n / 10n, back: (n) => n - 1000n, on: (n) => n + 1000n, multiply: (n) => n * 10n,
};

form.addEventListener("click", (event) => {
  const jump = JUMPS[event.target.dataset.jump];
  if (jump) goTo(jump(top()));
});

const MARK_FIELDS = ["mark", "word", "r", "m"];

function changeMarks(finished, left) {
  readMarks(finished, left);
  for (const group of groups.values()) dress(group);
  showCounts();
  saveAddress();
}

form.addEventListener("input", (event) => {
  const { name } = event.target;
  if (name === "view") place(top());
  if (name === "tokens" && view() === "trees" && event.target.value !== "none") {
    const n = top();
    fields.view.value = "words";
    place(n);
  }
  if (name === "view" || name === "tokens") loadTokenizer();
  if (MARK_FIELDS.includes(name)) changeMarks(false);
  saveAddress();
});

form.addEventListener("change", (event) => {
  if (MARK_FIELDS.includes(event.target.name)) changeMarks(true);
});

const RESIDUE_FIELDS = [fields.r, fields.m];

form.addEventListener("focusout", ({ target, relatedTarget }) => {
  if (RESIDUE_FIELDS.includes(target)) changeMarks(true, !RESIDUE_FIELDS.includes(relatedTarget));
});

region.addEventListener("click", (event) => {
  const word = event.target.closest("button")?.dataset.word;
  if (!word) return;
  fields.word.value = fields.word.value === word ? "" : word;
  changeMarks(true);
});

// The keys scroll the text from anywhere but fields. The keys Home and End go to its ends.
document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if (event.target.closest("input, select, textarea")) return;
  if (event.key === "Home") goTo(BEGIN);
  else if (event.key === "End") goTo(END - 1n);
  else if (region.contains(event.target)) return;
  else if (event.key === "PageUp" || event.key === "PageDown") {
    region.scrollBy(0, (event.key === "PageUp" ? -0.85 : 0.85) * region.clientHeight);
  } else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
    region.scrollBy(0, (event.key === "ArrowUp" ? -1 : 1) * size.row);
  } else return;
  event.preventDefault();
});

let frame = 0;
region.addEventListener("scroll", () => {
  cancelAnimationFrame(frame);
  frame = requestAnimationFrame(update);
});

readMarks(true);
place(start);
loadTokenizer();

// A region of another width may have another number of columns.
let width = region.clientWidth;
new ResizeObserver(() => {
  if (region.clientWidth !== width) place(top());
  else update();
  width = region.clientWidth;
}).observe(region);
