/** What the hub means by the statuses and headers of its refusals, as Python's huggingface_hub reads them. */

import { HubError, printable } from '@mlx-runners/mlx-core/errors';
import { hubEndpoint, hubToken } from './environment.js';

/** @param wait how many ms the server asked to be left alone */
export function refusal(
  subject: { id: string; revision: string; file?: string },
  status: number,
  headers: Headers,
  wait: number | undefined,
): HubError {
  const { id, revision, file } = subject;
  const said = serverMessage(headers);
  const what = file === undefined ? id : `${file} of ${id}`;
  const answer = `${hubEndpoint()} answered ${status} for ${what} at "${revision}"`;
  return new HubError(
    `${answer}${said ? ` (${said})` : ''}. ${advice(subject, status, headers, wait)}`,
  );
}

function advice(
  { id, revision, file }: { id: string; revision: string; file?: string },
  status: number,
  headers: Headers,
  wait: number | undefined,
): string {
  const code = headers.get('x-error-code');
  const page = `${hubEndpoint()}/${id}`;
  if (code === 'RevisionNotFound')
    return `There is no revision "${revision}": see ${page}/tree/main.`;
  if (code === 'EntryNotFound') return `There is no file "${file}": see ${page}/tree/main.`;
  if (code === 'GatedRepo') {
    return `The model is gated: accept its terms on ${page}, and ${OWN_TOKEN}.`;
  }
  if (status === 401 && hubToken() && code !== 'RepoNotFound') {
    return 'The token may have expired: make a new one, or run "hf auth login" again.';
  }
  if (code === 'RepoNotFound' || status === 401) {
    return `Check the name: there is no such model, or it is private; then ${OWN_TOKEN}.`;
  }
  if (status === 403) return `Your token doesn't give access: see ${page}, or ${OWN_TOKEN}.`;
  if (status === 404) return 'Check the name of the model, the revision and the file.';
  if (status === 429) {
    const later = wait === undefined ? 'later' : `in ${Math.ceil(wait / 1000)} s`;
    const more = hubToken() ? '' : ', or set HF_TOKEN: who is logged in may ask more often';
    return `Too many requests: try again ${later}${more}.`;
  }
  return status >= 500 ? 'The server has a problem: try again later.' : 'Check HF_ENDPOINT.';
}

const OWN_TOKEN = 'set HF_TOKEN, or run "hf auth login", with an account that has access';

function serverMessage(headers: Headers): string {
  return printable(headers.get('x-error-message')?.trim() ?? '', 200);
}
