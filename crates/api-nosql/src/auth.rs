//! Who is calling: signatures of the account's keys.
