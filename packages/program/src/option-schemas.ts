/** What options of several calls may be. */
import { z } from 'zod';

export function abortSignal() {
  return z
    .custom<AbortSignal>((value) => value instanceof AbortSignal, 'must be an AbortSignal')
    .optional();
}
