// Build a sentence from trees, and find the places where it occurs.

import { address, getLines, sentence as inWords } from "./api.js";
import { element, showError, svg } from "./dom.js";
import { onReturn, pushAddress, replaceAddress } from "./steps.js";
import { layOut, treeOf, wordOf } from "./tree.js";

const ANY = "*";
const LONGEST = 62; // digits of a word: longer ones do not occur below 2^63
const byId = (id) => document.getElementById(id);
const form = byId("search");
const field = form.elements.sentence;
const list = byId("sentence");
const digits = (n) => BigInt(n).toLocaleString("en");
const places = (count) => `${digits(count)} ${count === 1 ? "place" : "places"}`;

// The sentence. The text field and the trees are two views of `words`.

let words = [];

/** What is wrong with the words of a sentence, as a sentence; null if nothing is. */
function problemOf(words) {
  const most = Number(field.dataset.mostWords);
  if (!words.length) return "There are no words: write some, or append one below.";
  if (words.length > most) return `These are ${words.length} words: at most ${most} are searched for.`;
  for (const [i, word] of words.entries()) {
    const name = `Word ${i + 1}, ${word.length > 20 ? `${word.slice(0, 20)}…` : word},`;
    if (word === ANY) continue;
    if (/[^01]/.test(word)) return `${name} has a character that is not 0 or 1; any word is *.`;
    if (treeOf(word) === null) {
      return `${name} is not a Dyck word: each 1 needs a 0 after it that closes it.`;
    }
    if (word.length > LONGEST) return `${name} is longer than any word below 2^63.`;
  }
  if (words.every((word) => word === ANY)) return "At least one word must be known, not *.";
  return null;
}

function read() {
  words = field.value.split(/\s+/).filter(Boolean);
  const readable = words.every((word) => word === ANY || treeOf(word) !== null);
  list.classList.toggle("stale", !readable);
  if (readable) draw();
  say();
}

function change(changed, focus) {
  words = changed;
  field.value = words.join(" ");
  list.classList.remove("stale");
  draw();
  say();
  focus?.();
}

function say() {
  const problem = problemOf(words);
  field.setAttribute("aria-invalid", problem !== null);
  const said = problem ?? (words.length === 1 ? "1 word" : `${words.length} words`);
  byId("problem").classList.toggle("wrong", problem !== null);
  if (byId("problem").textContent !== said) byId("problem").textContent = said;
}

// The trees. One node of each tree can be reached with Tab, the others with the arrows.

function draw() {
  list.replaceChildren(...words.map(drawWord));
  if (!words.length) list.append(element("li", {}, "No words yet."));
}

function drawWord(word, i) {
  const tool = (name, label, action, disabled) => element(
    "button",
    { type: "button", "aria-label": label, title: label, "data-tool": name, onclick: action, disabled },
    { left: "←", right: "→", remove: "×" }[name],
  );
  return element(
    "li", {},
    element("div", { class: "drawing" }, word === ANY ? drawAny(i) : drawTree(word, i)),
    element("span", { class: "word" }, word === ANY ? "any word" : word),
    element(
      "div", { class: "tools" },
      tool("left", `Move word ${i + 1} left`, () => move(i, i - 1, "left"), i === 0),
      tool("remove", `Remove word ${i + 1}`, () => removeWord(i), false),
      tool("right", `Move word ${i + 1} right`, () => move(i, i + 1, "right"), i === words.length - 1),
    ),
  );
}

function drawAny(i) {
  const node = svg(
    "g", nodeAttributes(i, [], `Any word, word ${i + 1}: make it the word 10`),
    svg("circle", { class: "area", cx: 20, cy: 20, r: 18 }),
    svg("text", { class: "star", x: 20, y: 30, "aria-hidden": "true" }, "∗"),
  );
  return listening(svg("svg", { width: 40, height: 40, viewBox: "0 0 40 40" }, node), i);
}

function drawTree(word, i) {
  const { nodes, width, height } = layOut(treeOf(word));
  const [w, h] = [30 + 13 * width, 30 + 30 * height];
  const place = ({ x, depth }) => [15 + 13 * x, 15 + 30 * (height - depth)];
  const picture = svg(
    "svg",
    { width: w, height: h, viewBox: `0 0 ${w} ${h}`, role: "group",
      "aria-label": `Word ${i + 1}, the tree of ${word}`, "aria-describedby": "keys" },
  );
  for (const node of nodes) {
    if (!node.parent) continue;
    const [[x1, y1], [x2, y2]] = [place(node), place(node.parent)];
    picture.append(svg("line", { x1, y1, x2, y2 }));
  }
  for (const node of nodes) {
    const [cx, cy] = place(node);
    const name = node.path.length ? `Node ${node.path.map((k) => k + 1).join(".")}` : "Root";
    picture.append(svg(
      "g", nodeAttributes(i, node.path, `${name} of word ${i + 1}`),
      svg("circle", { class: "area", cx, cy, r: 13 }),
      svg("circle", { class: "dot", cx, cy, r: 5 }),
    ));
  }
  return listening(picture, i);
}

function nodeAttributes(i, path, label) {
  return {
    class: "node", role: "button", tabindex: path.length ? -1 : 0, "aria-label": label,
    "data-word": i, "data-path": path.join("."),
  };
}

function listening(picture, i) {
  const pathOf = (target) => {
    const node = target.closest(".node");
    return node && node.dataset.path.split(".").filter(Boolean).map(Number);
  };
  picture.addEventListener("click", (event) => {
    const path = pathOf(event.target);
    if (path) (removing() ? remove : grow)(i, path);
  });
  picture.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const path = pathOf(event.target);
    const action = path && {
      Enter: () => (removing() ? remove : grow)(i, path),
      " ": () => (removing() ? remove : grow)(i, path),
      "+": () => grow(i, path),
      "-": () => remove(i, path),
      Delete: () => remove(i, path),
      Backspace: () => remove(i, path),
      ArrowUp: () => focusNode(i, [...path, 0]),
      ArrowDown: () => path.length && focusNode(i, path.slice(0, -1)),
      ArrowLeft: () => path.length && focusNode(i, [...path.slice(0, -1), path.at(-1) - 1]),
      ArrowRight: () => path.length && focusNode(i, [...path.slice(0, -1), path.at(-1) + 1]),
    }[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
  return picture;
}

const removing = () => document.querySelector("[name=mode]:checked").value === "remove";
const replaced = (i, ...now) => words.toSpliced(i, 1, ...now);

function grow(i, path) {
  if (words[i] === ANY) return change(replaced(i, "10"), () => focusNode(i, []));
  if (words[i].length >= LONGEST) {
    byId("problem").textContent = "This tree is as large as trees below 2^63 can be.";
    return;
  }
  const tree = treeOf(words[i]);
  nodeAt(tree, path).push([]);
  change(replaced(i, wordOf(tree)), () => focusNode(i, path));
}

/** Remove a node. A tree that would have no node but its root becomes any word. */
function remove(i, path) {
  if (!path.length) return removeWord(i);
  const tree = treeOf(words[i]);
  nodeAt(tree, path.slice(0, -1)).splice(path.at(-1), 1);
  change(replaced(i, wordOf(tree) || ANY), () => focusNode(i, tree.length ? path.slice(0, -1) : []));
}

function removeWord(i) {
  change(replaced(i), () => {
    if (words.length) focusNode(Math.min(i, words.length - 1), []);
    else document.querySelector(".palette button").focus();
  });
}

function move(from, to, tool) {
  const moved = words.toSpliced(from, 1).toSpliced(to, 0, words[from]);
  change(moved, () => {
    const tools = list.children[to].querySelectorAll(".tools button:not(:disabled)");
    ([...tools].find((button) => button.dataset.tool === tool) ?? tools[0]).focus();
  });
}

function nodeAt(tree, path) {
  return path.reduce((node, k) => node[k], tree);
}

function focusNode(i, path) {
  const nodes = [...list.querySelectorAll(`[data-word="${i}"]`)];
  const node = nodes.find((node) => node.dataset.path === path.join("."));
  if (!node) return;
  for (const other of nodes) other.setAttribute("tabindex", -1);
  node.setAttribute("tabindex", 0);
  node.focus();
}

// The search.

let running = null;

async function search(writeAddress) {
  running?.abort();
  byId("results").hidden = false;
  const problem = problemOf(words);
  showError(byId("error"), problem);
  if (problem) return field.focus();
  const controller = running = new AbortController();
  const asked = {
    sentence: words.join(" "), from: form.elements.from.value, to: form.elements.to.value,
  };
  writeAddress(address("/find", asked));
  clear();
  byId("stop").disabled = false;
  byId("status").textContent = "Searching …";
  let start = null;
  let last = null;
  try {
    for await (const line of getLines(address("/api/find", asked), { signal: controller.signal })) {
      if ("law" in line) {
        start = line;
        if (line.law) byId("law").textContent = `By arithmetic, ${line.law}.`;
      } else if ("places" in line) {
        last = line;
        show(line);
      } else finish(start, line);
    }
  } catch (error) {
    if (running !== controller) return; // another search took the place of this one
    showError(byId("error"), inWords(error));
    byId("status").replaceChildren(...interrupted(asked, last, error.name === "AbortError"));
  }
  if (running === controller) {
    running = null;
    byId("stop").disabled = true;
  }
}

function clear() {
  byId("law").textContent = "";
  byId("rate").textContent = "";
  byId("progress").value = 0;
  byId("found").hidden = true;
  byId("places").replaceChildren();
}

function show({ places, done, rate, seconds_left: left }) {
  byId("progress").value = done;
  byId("places").append(...places.map((n) => element(
    "li", {},
    element("a", { href: `/n/${n}` }, digits(n)),
    element("a", { href: `/text?from=${n}`, "aria-label": `The text from ${n}` }, "text"),
  )));
  byId("found").hidden = !byId("places").children.length;
  if (rate === undefined) return; // arithmetic decided, and nothing was searched
  const speed = (rate / 1e6).toPrecision(3);
  const time = left >= 90 ? `${Math.round(left / 60)} min` : `${Math.ceil(left)} s`;
  byId("rate").textContent =
    `${Math.floor(100 * done)} % · ${speed} million integers a second · ${time} left`;
}

function finish(start, { total, sent, seconds }) {
  byId("progress").value = 1;
  byId("rate").textContent = `100 % · ${seconds} s`;
  const listed = sent < total ? ` The first ${digits(sent)} are listed.` : "";
  const { from, to, starts } = start;
  const examined = !starts ? "every start was examined"
    : starts.length ? "every start that arithmetic allows was examined" : "arithmetic allows none";
  const elsewhere = starts ? "" : " This does not rule out other places elsewhere.";
  byId("status").textContent =
    `${places(total)} from ${digits(from)} to ${digits(to)}; ${examined}.${listed}${elsewhere}`;
}

/** What is known of a search that did not reach its end. */
function interrupted(asked, last, stopped) {
  // Where arithmetic decides, nothing is searched.
  if (last?.searched === undefined) return [stopped ? "Stopped." : ""];
  const next = BigInt(last.searched) + 1n;
  return [
    `${places(last.total)} up to ${digits(last.searched)}. `,
    element("a", { href: address("/find", { ...asked, from: next }) }, "Search on from there"),
  ];
}

field.addEventListener("input", read);
for (const button of document.querySelectorAll(".palette button")) {
  button.addEventListener("click", () => change([...words, button.value]));
}
for (const mode of document.querySelectorAll("[name=mode]")) {
  mode.addEventListener("change", () => list.classList.toggle("removing", removing()));
}
form.addEventListener("submit", (event) => {
  event.preventDefault();
  search(pushAddress);
  byId("results").scrollIntoView({ block: "nearest" });
});
byId("stop").addEventListener("click", () => running?.abort());

/** Show the search of an address. */
function showState(state) {
  for (const name of ["sentence", "from", "to"]) {
    form.elements[name].value = state.get(name) ?? form.elements[name].defaultValue;
  }
  read();
  if (state.has("sentence")) return search(replaceAddress);
  running?.abort();
  byId("results").hidden = true;
}

onReturn(showState);
showState(new URLSearchParams(location.search));
