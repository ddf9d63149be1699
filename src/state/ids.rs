//! Identifiers, digests and random values.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::error::{Error, Result};

/// How many hex digits of a digest an identifier carries.
const ID_HEX_DIGITS: usize = 40;

/// Random bytes in a claim token.
const TOKEN_BYTES: usize = 32;

/// A SHA-256 digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of some bytes.
    #[must_use]
    pub fn of(bytes: impl AsRef<[u8]>) -> Self {
        Self(Sha256::digest(bytes.as_ref()).into())
    }

    /// The digest of several parts, one after the other.
    #[must_use]
    fn of_parts(parts: &[&str]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(part.as_bytes());
        }
        Self(hash.finalize().into())
    }

    /// All 64 hex digits, lowercase.
    #[must_use]
    pub fn hex(&self) -> String {
        hex::encode(self.0)
    }

    /// Whether a stored digest is this one, in a time that does not depend on where they differ.
    #[must_use]
    pub fn equals(&self, stored: &[u8]) -> bool {
        self.0.ct_eq(stored).into()
    }

    fn id(&self, prefix: &str) -> String {
        let mut id = String::with_capacity(prefix.len() + 1 + ID_HEX_DIGITS);
        id.push_str(prefix);
        id.push('-');
        id.extend(self.hex().chars().take(ID_HEX_DIGITS));
        id
    }
}

impl rusqlite::ToSql for Digest {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        Ok(self.0.as_slice().into())
    }
}

/// The identity of a resource: its type, and 40 hex digits of SHA-256 over type, NUL and aggregate key.
#[must_use]
pub fn resource_id(resource_type: &str, aggregate_key: &str) -> String {
    Digest::of_parts(&[resource_type, "\0", aggregate_key]).id(resource_type)
}

/// The identity of a project, from its canonical path.
#[must_use]
pub fn project_id(canonical_path: &str) -> String {
    Digest::of(canonical_path).id("project")
}

/// The identity of a controller's effect: one for each idempotency key of its source.
#[must_use]
pub fn effect_id(source_resource_id: &str, idempotency_key: &str) -> String {
    Digest::of_parts(&[source_resource_id, "\0", idempotency_key]).id("effect")
}

/// A random UUID (version 4).
pub fn random_uuid() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(Error::Random)?;
    Ok(uuid::Builder::from_random_bytes(bytes).into_uuid().to_string())
}

/// `PREFIX-` and a random UUID.
pub fn random_id(prefix: &str) -> Result<String> {
    Ok(format!("{prefix}-{}", random_uuid()?))
}

/// A claim token: 32 bytes from the operating system, in base64url.
pub fn random_token() -> Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes).map_err(Error::Random)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_derived_as_the_typescript_modules_derive_them() {
        assert_eq!(resource_id("run", "run-1"), "run-66e4f52214380b24dd04f707af100e5afe8d5297");
        assert_eq!(resource_id("controller", "p:c:k"), "controller-9291910440e137032bbbe33bd40a94645c6181a0");
        assert_eq!(project_id("/conformance/project-a"), "project-35b0ae1137a7f828816ba629dcbdfe0ad57b5d83");
    }

    #[test]
    fn tokens_are_43_characters_and_never_the_same() -> Result<()> {
        let (one, two) = (random_token()?, random_token()?);
        assert_eq!(one.len(), 43);
        assert_ne!(one, two);
        Ok(())
    }

    #[test]
    fn digests_compare_with_any_stored_bytes() {
        let digest = Digest::of("token");
        assert!(digest.equals(&digest.0));
        assert!(!digest.equals(&Digest::of("other").0));
        assert!(!digest.equals(b"short"));
    }
}
