// Build elements.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element: element("a", { href: "/n/360" }, "360", otherElement). */
export function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** An SVG element. */
export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

/** Show an error in an element that is reserved for it, or clear it. */
export function showError(place, message) {
  place.hidden = !message;
  place.textContent = message ?? "";
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") node.addEventListener("click", value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== undefined && value !== null) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}
