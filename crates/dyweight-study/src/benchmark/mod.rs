//! A benchmark: solvers × budgets on the same noise, each judged by its distance to one teacher and to a reference.
//!
//! [`Experiment`] says what competes; [`run`] trains what must be learned, judges every entry that is not on record
//! yet, and appends to the journal; reports are drawn from records alone. `compare`, `quickstart` and the paper's
//! studies are lists of entries with sentences about the outcome.

mod candidate;
mod evaluator;
mod exact;
mod experiment;
mod fairness;
mod files;
mod forecast;
mod page;
mod part;
mod pictures;
mod prompted;
mod provenance;
mod rates;
mod record;
mod results;
mod run;
mod samplers;
mod search;
mod show;
mod style;
mod training_job;
mod view;

pub use candidate::Candidate;
pub use experiment::{Entry, Experiment, Judging, Subject};
pub use forecast::Forecast;
pub use page::{Repeat, Style};
pub use record::{ByFeatures, Score, TrainingRecord};
pub use results::{Results, read};
pub use run::{Piece, Watch, run};
pub use search::{Chosen, Runner};
pub use view::{Measure, Tally, View};
