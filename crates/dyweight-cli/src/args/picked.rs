//! Options of training that other commands have too: the same flags, from the one list.

use super::class_of;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use dyweight::models::LoadedModel;
use dyweight::train::{ClassName, TrainSpec};
use dyweight::{Error, Result};
use std::ffi::OsString;
use std::marker::PhantomData;

/// Which options a command has.
pub trait Pick {
    /// The option of training, and what it is called here.
    const OPTIONS: &'static [(&'static str, &'static str)];
}

/// What a model is asked for.
pub struct Conditions;

impl Pick for Conditions {
    const OPTIONS: &'static [(&'static str, &'static str)] =
        &[("class", "class"), ("prompts", "prompts"), ("negative", "negative"), ("guidance", "guidance")];
}

/// The options that `P` names, as far as they were given.
pub struct Picked<P> {
    pub train: TrainSpec,
    of: PhantomData<P>,
}

fn all() -> Command {
    TrainSpec::augment_args(Command::new("options").no_binary_name(true))
}

impl<P: Pick> Args for Picked<P> {
    fn augment_args(command: Command) -> Command {
        let all = all();
        let picked = P::OPTIONS.iter().filter_map(|(option, name)| {
            let arg: &Arg = all.get_arguments().find(|arg| arg.get_long() == Some(option))?;
            Some(arg.clone().id(*name).long(*name))
        });
        command.args(picked)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<P: Pick> FromArgMatches for Picked<P> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let words = P::OPTIONS.iter().flat_map(|(option, name)| {
            let given = matches.get_raw(name).into_iter().flatten();
            given.map(move |value| {
                let mut word = OsString::from(format!("--{option}="));
                word.push(value);
                word
            })
        });
        let train = TrainSpec::from_arg_matches(&all().try_get_matches_from(words)?)?;
        Ok(Self { train, of: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<P> Picked<P> {
    /// The options for a model: a class by name is the one by number, so that both are one setting.
    pub fn on(&self, model: &LoadedModel) -> Result<TrainSpec> {
        on(self.train.clone(), model)
    }

    /// These over others, which keep what is not given.
    pub fn over(&self, others: &TrainSpec) -> Result<TrainSpec> {
        let unreadable = |e: serde_json::Error| Error::bad_value("train", "options", e.to_string());
        let mut merged = serde_json::to_value(others).map_err(unreadable)?;
        let given = serde_json::to_value(&self.train).map_err(unreadable)?;
        if let (Some(merged), Some(given)) = (merged.as_object_mut(), given.as_object()) {
            merged.extend(given.iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k.clone(), v.clone())));
        }
        serde_json::from_value(merged).map_err(unreadable)
    }
}

/// Options with the class by its number.
pub fn on(mut train: TrainSpec, model: &LoadedModel) -> Result<TrainSpec> {
    if let Some(class) = train.class.as_mut().filter(|class| !class.is_none()) {
        *class = ClassName::Number(class_of(&class.to_string(), model.class_names(), &["none"])?);
    }
    Ok(train)
}
