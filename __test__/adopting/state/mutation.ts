export { canonicalJson, jsonFingerprint, resourceIdFor, tokenHash } from "@pi-workflows/store";
