//! Blocks that several networks share. Each has a way forward that can keep what the way back needs.

mod attend;
mod res;
mod self_attend;

pub(crate) use attend::{Attend, AttendTape};
pub(crate) use res::{Res, ResSize, ResTape};
pub(crate) use self_attend::{SelfAttend, SelfAttendSize, SelfAttendTape};
