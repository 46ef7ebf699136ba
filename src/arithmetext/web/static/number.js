// The keys ← and → go to the neighbours of n.
document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if (event.target.closest("input, textarea, select, [role=region]")) return;
  const rel = { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
  if (rel) document.querySelector(`main a[rel=${rel}]`)?.click();
});

// A narrow strip of neighbours begins in the middle, where n is.
const strip = document.querySelector(".strip");
const here = strip?.querySelector("[aria-current]");
if (here) {
  const middle = here.offsetLeft - strip.offsetLeft + here.offsetWidth / 2;
  strip.scrollLeft = middle - strip.clientWidth / 2;
}
