/** What lies in this agent's folder. */

/** A folder in short. */
export interface Overview {
  /** Files and folders, by name. */
  names: string[];
  /** Of all files together. */
  bytes: number;
}

/**
 * Looks at a folder. A tool of your own: every exported function here is one, and blocks call it as `folder.overview()`.
 * @param path Relative to the agent folder; default ".".
 */
export async function overview(path?: string): Promise<Overview> {
  const entries = await fs.list(path ?? ".");
  return {
    names: entries.map((entry) => entry.name),
    bytes: entries.reduce((sum, entry) => sum + entry.size, 0),
  };
}
