// Not a module: it runs before the first paint, so that the page never flashes in the other theme.
(() => {
  let theme = null;
  try {
    theme = localStorage.getItem("shiftboss-theme");
  } catch {
    // Storage may be blocked; the theme of the system is then used.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
