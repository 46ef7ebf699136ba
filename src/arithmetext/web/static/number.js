// The keys ← and → go to the neighbours of n.
document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if (event.target.closest("input, textarea, select, [role=region]")) return;
  const rel = { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
  if (rel) document.querySelector(`main a[rel=${rel}]`)?.click();
});
