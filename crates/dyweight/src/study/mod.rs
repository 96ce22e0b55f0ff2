//! Named experiments: what they vary, how they run and resume, what they write.

pub mod compare;
pub mod contest;
pub mod journal;
pub mod numeric;
pub mod paper;
