//! A contest: solvers × budgets on the same noise, each judged by its distance to one teacher and to a reference.
//!
//! [`Experiment`] says what competes; [`run`] trains what must be learned, judges every entry that is not on record yet, and
//! appends to the journal; reports are drawn from records alone. `compare`, `quickstart` and the paper's studies are lists of
//! entries with sentences about the outcome.

mod contestant;
mod experiment;
mod files;
mod forecast;
mod handcrafted;
mod judge;
mod learn;
mod looks;
mod page;
mod pictures;
mod prompted;
mod provenance;
mod record;
mod run;
mod show;
mod view;

pub use contestant::{Contestant, Term};
pub use experiment::{Entry, Experiment, Judging, Subject};
pub use forecast::Forecast;
pub use handcrafted::{Rival, best_handcrafted};
pub use page::{Repeat, Style};
pub use record::{Lesson, Score};
pub use run::{Piece, Results, Watch, read, run};
pub use view::{Measure, Tally, View};
