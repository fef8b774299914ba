/** Generates functions that make objects. */

/**
 * Returns a function that makes an object with these members. It is generated, so that V8 knows their names: with loops
 * over the names in its place, an export of products takes 1.3 times the server's CPU ("Exports" in
 * `bench/MEASUREMENTS.md`).
 * @param parameters the names of its parameters
 * @param members the name of each member, and the expression of its value in JavaScript
 * @param functions what the expressions call, by the names in them
 */
export function compileObject<Args extends unknown[], Made>(
  parameters: readonly string[],
  members: readonly (readonly [name: string, expression: string])[],
  functions: Readonly<Record<string, unknown>> = {},
): (...args: Args) => Made {
  const written = members.map(([name, expression]) => `${JSON.stringify(name)}: ${expression}`)
  const create = new Function(
    ...Object.keys(functions),
    `return (${parameters.join()}) => ({ ${written.join()} })`,
  )
  // The caller knows the types of the parameters and members.
  return create(...Object.values(functions))
}
