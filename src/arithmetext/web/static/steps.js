// The address of a page and the steps of the browser's history.

let shown = location.search;

/** Keep the address up to date within one step of the history. */
export function replaceAddress(address) {
  history.replaceState(null, "", address);
  shown = location.search;
}

/** Begin a new step, so that Back returns to the state before; not if nothing changes. */
export function pushAddress(address) {
  if (new URL(address, location).search !== location.search) history.pushState(null, "", address);
  shown = location.search;
}

/** Call `show` with the parameters of the address when the reader goes back or forward. */
export function onReturn(show) {
  addEventListener("popstate", () => {
    if (location.search === shown) return; // only what follows # changed
    shown = location.search;
    show(new URLSearchParams(shown));
  });
}
