"use strict";
// The page again, every few seconds while somebody looks; only the parts that changed are put in.
(() => {
  const again = async () => {
    if (document.hidden) return;
    try {
      const answer = await fetch(location.href, { redirect: "manual", cache: "no-store" });
      if (answer.type === "opaqueredirect") return location.reload();
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const main = document.getElementById("main");
      const old = [...main.querySelectorAll("[data-part]")], fresh = [...page.querySelectorAll("[data-part]")];
      if (old.map((p) => p.dataset.part).join() !== fresh.map((p) => p.dataset.part).join()) {
        main.replaceWith(page.getElementById("main"));
      } else {
        old.forEach((part, i) => part.innerHTML === fresh[i].innerHTML || part.replaceWith(fresh[i]));
      }
      if (!page.body.dataset.every) clearInterval(timer);
    } catch {} // the service is away: the page stays as it is
  };
  const timer = setInterval(again, 1000 * Number(document.body.dataset.every));
})();
