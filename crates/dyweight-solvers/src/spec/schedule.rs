//! A schedule from its name and options.

use super::spelling;
use dyweight_core::denoiser::{Model, Prediction};
use dyweight_core::error::{Error, Result};
use dyweight_core::option;
use dyweight_core::schedule::{BetaTable, Grid, Schedule, Shift};

/// What a user says about the schedule; what is left out follows from the rule and the model.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Schedule"))]
#[allow(rustdoc::broken_intra_doc_links, reason = "help texts have defaults in brackets")]
pub struct ScheduleSpec {
    /// karras, logsnr, time-uniform, discrete or flow.
    #[cfg_attr(feature = "clap", arg(long, alias = "schedule_type", value_name = "NAME"))]
    pub schedule: Option<String>,
    /// Exponent of the karras (7), time-uniform (1) and discrete (1) rules.
    #[cfg_attr(feature = "clap", arg(long, alias = "schedule_rho"))]
    pub rho: Option<f64>,
    /// Smallest noise level [the model's].
    #[cfg_attr(feature = "clap", arg(long, alias = "sigma_min", allow_negative_numbers = true))]
    pub sigma_min: Option<f64>,
    /// Largest noise level [the model's].
    #[cfg_attr(feature = "clap", arg(long, alias = "sigma_max", allow_negative_numbers = true))]
    pub sigma_max: Option<f64>,
    /// An explicit, strictly decreasing grid.
    #[cfg_attr(feature = "clap", arg(long, value_name = "A,B,C", value_delimiter = ',', num_args = 1))]
    #[cfg_attr(feature = "clap", arg(allow_negative_numbers = true))]
    pub sigmas: Option<Vec<f64>>,
    /// Noise table of the discrete rule: sd15 or lsun-ldm.
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    pub beta_table: Option<String>,
    /// Shift of the flow rule [1].
    #[cfg_attr(feature = "clap", arg(long))]
    pub shift: Option<f64>,
    /// Image size in pixels from which the flow rule takes its shift.
    #[cfg_attr(feature = "clap", arg(long, value_name = "PIXELS"))]
    pub image_size: Option<usize>,
}

impl ScheduleSpec {
    /// The rule for a prediction, on a model that has none of its own.
    pub fn build(&self, prediction: Prediction) -> Result<Schedule> {
        let name = self.schedule.as_deref().unwrap_or(match (&self.sigmas, prediction) {
            (Some(_), _) => "explicit",
            (_, Prediction::Denoised) => "karras",
            (_, Prediction::Velocity) => "flow",
        });
        let schedule = match spelling::schedule(name)?.unwrap_or(name) {
            "karras" => Schedule::Karras { rho: self.rho.unwrap_or(7.0) },
            "logsnr" => Schedule::LogSnr,
            "time-uniform" => Schedule::TimeUniform { rho: self.rho.unwrap_or(1.0) },
            "discrete" => {
                let table = BetaTable::named(self.beta_table.as_deref().unwrap_or("sd15"))?;
                Schedule::Discrete { table, rho: self.rho.unwrap_or(1.0) }
            }
            "flow" => Schedule::Flow { shift: self.flow_shift()? },
            "explicit" => {
                let grid = Grid::new(self.sigmas.clone().unwrap_or_default())?;
                Schedule::Explicit { sigmas: grid.sigmas().to_vec() }
            }
            _ => return Err(Error::unknown_name("schedule", name, Schedule::NAMES)),
        };
        self.refuse_foreign_options(&schedule)?;
        if matches!(schedule, Schedule::Flow { .. }) && prediction != Prediction::Velocity {
            return Err(Error::conflict(
                "the schedule flow is for models that predict velocities; this one predicts denoised samples",
                "leave `schedule` out, or choose karras, logsnr, time-uniform or discrete",
            ));
        }
        let ends_above = matches!(schedule, Schedule::Karras { .. } | Schedule::LogSnr | Schedule::TimeUniform { .. });
        if ends_above && prediction == Prediction::Velocity && self.sigma_min.is_none() {
            return Err(Error::conflict(
                format!("a flow ends at level 0, the schedule {name} above it"),
                "leave `schedule` out, or say with `sigma-min` where the grid ends",
            ));
        }
        Ok(schedule)
    }

    /// True if a rule is named, or follows from what is.
    pub(crate) fn names_a_rule(&self) -> bool {
        let Self { schedule, rho, sigmas, beta_table, shift, image_size, .. } = self;
        let of_a_rule = rho.is_some() || shift.is_some() || image_size.is_some();
        schedule.is_some() || sigmas.is_some() || beta_table.is_some() || of_a_rule
    }

    /// The rule as a list of solvers has it: `karras`, `time-uniform:2`, `flow:3`; none where nothing is named.
    pub fn term(&self) -> Option<String> {
        let exponent = self.rho.or(self.shift).map_or_else(String::new, |value| format!(":{value}"));
        let listed = self.sigmas.as_ref().map(|_| "explicit");
        let name = self.schedule.as_deref().or(listed).or(self.shift.map(|_| "flow"))?;
        Some(format!("{name}{exponent}"))
    }

    /// The rule's name for people: "Karras 7", "time-uniform 2", "flow shift 3"; none where nothing is named.
    pub fn title(&self) -> Option<String> {
        let exponent = |usual: f64| self.rho.unwrap_or(usual);
        let listed = self.sigmas.as_ref().map(|_| "explicit");
        let name = self.schedule.as_deref().or(listed).or(self.shift.map(|_| "flow"))?;
        Some(match spelling::schedule(name).ok().flatten().unwrap_or(name) {
            "karras" => format!("Karras {}", exponent(7.0)),
            "logsnr" => "log-SNR".into(),
            "time-uniform" if self.rho.is_some() => format!("time-uniform {}", exponent(1.0)),
            "flow" => self.shift.map_or("flow".into(), |shift| format!("flow shift {shift}")),
            other => other.into(),
        })
    }

    /// The rule on a model: its own, where it has one and nothing else is said.
    pub fn on(&self, model: &dyn Model) -> Result<Schedule> {
        let (prediction, own) = (model.prediction(), model.schedule());
        let says = self.sigmas.is_some() || self.shift.is_some() || self.image_size.is_some();
        match (self.build(prediction)?, own) {
            (Schedule::Flow { .. }, Some(own)) if !says => Ok(own),
            (built, _) => Ok(built),
        }
    }

    /// Smallest and largest level for a rule on a model of the given range.
    pub fn range(&self, schedule: &Schedule, of_model: (f64, f64)) -> (f64, f64) {
        let (low, high) = schedule.own_range().unwrap_or(of_model);
        (self.sigma_min.unwrap_or(low), self.sigma_max.unwrap_or(high))
    }

    fn flow_shift(&self) -> Result<Shift> {
        match (self.shift, self.image_size) {
            (Some(_), Some(_)) => {
                Err(Error::conflict("`shift` and `image-size` both decide the flow's shift", "give one of them"))
            }
            (Some(shift), None) => Shift::fixed(shift),
            (None, Some(size)) if (16..=1 << 16).contains(&size) => Ok(Shift::for_image(size, size)),
            (None, Some(size)) => Err(Error::bad_value("image-size", size, "must lie between 16 and 65536 pixels")),
            (None, None) => Shift::fixed(1.0),
        }
    }

    /// An option the rule does not have would be ignored in silence; it is refused instead. `rho` alone is let through
    /// where the rule has none, because grids are often swept over rules with one fixed rho.
    fn refuse_foreign_options(&self, schedule: &Schedule) -> Result<()> {
        let flow = matches!(schedule, Schedule::Flow { .. });
        let explicit = matches!(schedule, Schedule::Explicit { .. });
        let foreign = [
            ("sigmas", self.sigmas.is_some() && !explicit),
            ("beta-table", self.beta_table.is_some() && !matches!(schedule, Schedule::Discrete { .. })),
            ("shift", self.shift.is_some() && !flow),
            ("image-size", self.image_size.is_some() && !flow),
            ("sigma-min", self.sigma_min.is_some() && (flow || explicit)),
            ("sigma-max", self.sigma_max.is_some() && (flow || explicit)),
        ];
        option::refuse(&foreign, |option| Error::no_effect(option, "the chosen `schedule` does not have it"))
    }
}
