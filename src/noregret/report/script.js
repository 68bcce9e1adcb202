"use strict";
// Print everything that is folded, and fold it again afterwards.
(() => {
  let folded = [];
  const open = () => {
    folded = [...document.querySelectorAll("details:not([open]):not(.ids)")];
    for (const part of folded) part.open = true;
  };
  const close = () => {
    for (const part of folded) part.open = false;
    folded = [];
  };
  addEventListener("beforeprint", open);
  addEventListener("afterprint", close);
  // A link to a cell or a setting unfolds what it lies in.
  const reveal = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    let inside = target;
    while (inside) {
      if (inside.tagName === "DETAILS") inside.open = true;
      inside = inside.parentElement;
    }
    target.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  reveal();
})();
