/** Which container a file is, told from its first bytes and never from its name. */

export type Container =
  | 'wav'
  | 'mp3'
  | 'flac'
  | 'ogg'
  | 'mp4'
  | 'webm'
  | 'aac'
  | 'aiff'
  | 'caf'
  | 'au'
  | 'amr'
  | 'asf'
  | 'avi'
  | 'w64';

/** How each container is called in messages. */
export const CONTAINER_NAMES: Record<Container, string> = {
  wav: 'WAV',
  mp3: 'MP3',
  flac: 'FLAC',
  ogg: 'Ogg (Opus or Vorbis)',
  mp4: 'MP4/M4A',
  webm: 'WebM/Matroska',
  aac: 'AAC (ADTS)',
  aiff: 'AIFF',
  caf: 'Core Audio (CAF)',
  au: 'Sun/NeXT audio (AU)',
  amr: 'AMR',
  asf: 'Windows Media (ASF)',
  avi: 'AVI',
  w64: 'Wave64',
};

const WAVE_CONTAINERS = ['RIFF', 'RIFX', 'RF64', 'BW64'];

/** So many first bytes tell a container. */
export const CONTAINER_BYTES = 16;

/** The container of a file's first bytes, or undefined for none of these. */
export function detectContainer(bytes: Uint8Array): Container | undefined {
  const text = (from: number, to: number) => String.fromCharCode(...bytes.subarray(from, to));
  const start = text(0, 4);
  const form = text(8, 12);
  if (WAVE_CONTAINERS.includes(start)) {
    if (form === 'AVI ') return 'avi';
    return form === 'WAVE' || bytes.length < 12 ? 'wav' : undefined;
  }
  if (start === 'riff') return 'w64';
  if (start === 'fLaC') return 'flac';
  if (start === 'OggS') return 'ogg';
  if (start === 'caff') return 'caf';
  if (start === '.snd') return 'au';
  if (text(0, 5) === '#!AMR') return 'amr';
  if (start === 'FORM' && (form === 'AIFF' || form === 'AIFC')) return 'aiff';
  if (text(4, 8) === 'ftyp') return 'mp4';
  if (start === '\x1a\x45\xdf\xa3') return 'webm';
  if (start === '\x30\x26\xb2\x75') return 'asf';
  if (text(0, 3) === 'ID3') return 'mp3';
  return mpegAudio(bytes);
}

/** MPEG frame headers have no magic word, only 11 or 12 set bits and values that must make sense. */
function mpegAudio(bytes: Uint8Array): 'mp3' | 'aac' | undefined {
  const [sync = 0, second = 0, third = 0] = bytes;
  if (sync !== 0xff) return undefined;
  if ((second & 0xf6) === 0xf0) return (third >> 2) % 16 < 13 ? 'aac' : undefined;
  const version = (second >> 3) & 3;
  const layer = (second >> 1) & 3;
  const bitRate = third >> 4;
  const rate = (third >> 2) & 3;
  const sane = version !== 1 && layer !== 0 && bitRate !== 0 && bitRate !== 15 && rate !== 3;
  return (second & 0xe0) === 0xe0 && sane ? 'mp3' : undefined;
}
