/* The theme wraps each table so that it can scroll. What scrolls must be reachable by keyboard. */
new MutationObserver(() => {
  for (const wrap of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) wrap.tabIndex = 0
}).observe(document.documentElement, {childList: true, subtree: true})
