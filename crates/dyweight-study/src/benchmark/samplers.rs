//! The solvers of entries, as they are used on a subject.

use super::candidate::Candidate;
use super::experiment::{Entry, Experiment, Subject};
use dyweight_core::error::{Error, Result, counted};
use dyweight_sample::{Learned, OnModel, SampleSpec, Sampler, Who, misfits, not_made};
use dyweight_solvers::solver_file::SolverFile;
use dyweight_solvers::spec::Budget;

/// The solver of an entry that needs no training; refuses a budget it cannot meet.
pub(super) fn sampler_of(entry: &Entry, subject: &Subject) -> Result<Option<Sampler>> {
    match &entry.who {
        Candidate::Handcrafted { .. } => handcrafted(entry, &subject.on()?).map(Some),
        Candidate::Given { file } => learned(file, entry, subject).map(Some),
        Candidate::Learned { .. } => Ok(None),
        // An open entry is closed before anything is built of it; until then it can be what one of its settings can.
        Candidate::Open { .. } => entry.settings_on(subject).map(|_| None),
    }
}

/// Fixed coefficients.
pub(super) fn handcrafted(entry: &Entry, on: &OnModel<'_>) -> Result<Sampler> {
    let Candidate::Handcrafted { solver, schedule, afs } = &entry.who else { return Err(Error::Cancelled) };
    let (schedule, budget) = (schedule.clone(), Some(Budget::Nfe(entry.nfe)));
    SampleSpec { budget, schedule, afs: *afs, denoise_to_zero: false }.sampler(Who::Handcrafted(solver), on)
}

/// Learned coefficients on the grid they were learned on, or that goes with the model.
pub(super) fn learned(file: &SolverFile, entry: &Entry, subject: &Subject) -> Result<Sampler> {
    let learned = Learned::of(&entry.row, file.clone());
    let sampler = SampleSpec::default().sampler(Who::Learned(&learned), &subject.on()?)?;
    let counted = if entry.once { sampler.sequential_calls } else { sampler.nfe };
    if counted != entry.nfe {
        return Err(not_made(&entry.row, Some(file), (counted, subject.calls()?), entry.nfe));
    }
    Ok(sampler)
}

impl Experiment {
    /// In what entries are used on other than they were learned for, each with its row.
    pub fn misfits(&self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for entry in &self.entries {
            let (Candidate::Given { file }, subject) = (&entry.who, &self.subjects[entry.subject]) else { continue };
            let (on, sampler) = (subject.on()?, learned(file, entry, subject)?);
            let own = misfits(file, (on.model, &on.identity), subject.guidance, (sampler.afs, &sampler.grid));
            found.extend(own.into_iter().map(|what| format!("{}, {}: {what}", entry.row, counted(entry.nfe, "call"))));
        }
        Ok(found)
    }
}

impl Entry {
    /// An error unless the solver can make exactly that many calls on the subject.
    pub(crate) fn possible_on(&self, subject: &Subject) -> Result<()> {
        sampler_of(self, subject).map(drop)
    }
}
