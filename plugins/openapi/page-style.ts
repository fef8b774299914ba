/** The style of the documentation page: its header, the form to sign in, and changes of Scalar's style. */

/**
 * Both themes in the colors of Scalar, whose variables exist only once its script has run. Text has a contrast of at
 * least 4.5:1 and the borders of fields one of 3:1 (WCAG 2.2, 1.4.3 and 1.4.11).
 */
export const PAGE_STYLE = `
body {
  --bar-height: 52px; --scalar-custom-header-height: var(--bar-height);
  --text: #1b2230; --muted: #5b6475; --bar: #fff; --field: #fff; --line: #dfe3ea; --edge: #848d9c; --accent: #1d4ed8;
  --on-accent: #fff; --failure: #b42318;
  color-scheme: light; margin: 0; background: var(--bar);
}
body.dark-mode {
  --text: #e6e9ef; --muted: #9aa4b5; --bar: #0f0f0f; --field: #1a1a1a; --line: #2d2d2d; --edge: #757d8b; --accent: #8ab0ff;
  --on-accent: #10141b; --failure: #ff9c92;
  color-scheme: dark;
}
[hidden] { display: none !important; }
.bar, .sign-in { color: var(--text); font: 15px/1.4 -apple-system, BlinkMacSystemFont, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif; }
.bar {
  position: sticky; top: 0; z-index: 20; box-sizing: border-box; height: var(--bar-height); padding: 0 14px; display: flex;
  align-items: center; gap: 10px; background: var(--bar); border-bottom: 1px solid var(--line);
}
.brand { display: flex; align-items: center; gap: 10px; color: inherit; font-weight: 600; text-decoration: none; }
.brand img { width: 26px; height: 26px; flex: none; }
.account {
  flex: 1 1 0; min-width: 0; margin: 0; overflow: hidden; color: var(--muted); text-align: right; text-overflow: ellipsis;
  white-space: nowrap;
}
.bar button, .sign-in button {
  flex: none; min-height: 34px; padding: 0 14px; border: 1px solid var(--edge); border-radius: 6px; background: none;
  color: inherit; font: inherit; cursor: pointer;
}
.bar .primary, .sign-in .primary {
  border-color: var(--accent); background: var(--accent); color: var(--on-accent); font-weight: 600;
}
.sign-in button:disabled { opacity: 0.6; cursor: progress; }
.bar .icon { width: 36px; padding: 0; display: grid; place-items: center; border-color: transparent; }
.icon svg { width: 18px; height: 18px; }
body.dark-mode .moon, body:not(.dark-mode) .sun { display: none; }
.bar :focus-visible, .sign-in :focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
.sign-in {
  box-sizing: border-box; width: min(400px, calc(100vw - 32px)); padding: 24px; border: 1px solid var(--line);
  border-radius: 10px; background: var(--bar);
}
.sign-in::backdrop { background: rgb(0 0 0 / 0.45); }
.sign-in h2 { margin: 0 0 14px; font-size: 20px; }
.sign-in fieldset { margin: 0 0 6px; padding: 0; border: 0; min-width: 0; }
.sign-in legend { padding: 0; font-weight: 600; }
.sign-in .method { display: flex; align-items: center; gap: 8px; padding: 4px 0; }
.sign-in .method input { accent-color: var(--accent); margin: 0; }
.sign-in .field { display: block; margin-top: 12px; font-weight: 600; }
.sign-in .field input {
  display: block; box-sizing: border-box; width: 100%; margin-top: 4px; padding: 8px 10px; border: 1px solid var(--edge);
  border-radius: 6px; background: var(--field); color: inherit; font: inherit; font-weight: 400;
}
.sign-in .failure { min-height: 21px; margin: 12px 0; color: var(--failure); overflow-wrap: anywhere; }
.sign-in .actions { display: flex; justify-content: flex-end; gap: 10px; }
@media (max-width: 480px) {
  .bar button { padding: 0 10px; }
  .bar .icon { padding: 0; }
  .bar:has(#sign-out:not([hidden])) .brand span { display: none; }
}
.scalar-app { --scalar-radius: 4px; }
/* Links to the makers of Scalar, and its switch of the theme, which the header replaces. */
a[href*="scalar.com"], .darklight-reference { display: none !important; }
/* The button that closes the request client would lie on the header. */
.scalar-app button.app-exit-button { position: absolute; z-index: 2; color: inherit; background: none; }
/* The rows of its tables would scroll over their title. */
.scalar-app .request-response-header { z-index: 1; }
/* The columns of a table are as wide as their texts; on a narrow screen the table scrolls. */
.scalar-app .introduction-description .markdown table { table-layout: auto; }
.scalar-app .introduction-description .markdown :is(td, th) { overflow-wrap: normal; word-break: normal; }
.scalar-app .introduction-description .markdown td:first-child { white-space: nowrap; }
@media (max-width: 1000px) {
  /* Below the header of the page is one of Scalar. */
  .scalar-app .introduction-description .introduction-description-heading { scroll-margin-top: 116px; }
}
@media (max-width: 600px) {
  /* The button that copies a link to a field is wider than the rest of its line. */
  .scalar-app { overflow-x: clip; }
  .scalar-app .introduction-description .markdown table { display: block; overflow-x: auto; }
  .scalar-app .introduction-description .markdown td:last-child { min-width: 220px; }
}
`
