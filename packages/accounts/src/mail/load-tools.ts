/** Loads what renders mails: only processes that send or show them need it. */
export async function loadMailTools() {
  const [{ loadTemplates }, { buildMessage }] = await Promise.all([
    import('./templates.ts'),
    import('./transport.ts'),
  ])
  return { ...loadTemplates(), buildMessage }
}
