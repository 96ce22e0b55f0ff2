//! DyWeight for any budget: a solver for each number of steps that was trained, and what lies between two of them for
//! the others, so that one file serves a range of budgets, and of guidance.
//!
//! ```text
//! S trained         w, s = those that were learned
//! A < S < B         wᵢₖ = AB(min(i + 1, window))ₖ + α·δᴬₖ(xᴬ) + β·δᴮₖ(xᴮ)       k: slopes back, 0 the newest
//!                   sᵢ  =                           α·sᴬ(xᴬ)  + β·sᴮ(xᴮ)
//!
//! δⱼₖ = wⱼₖ − AB(min(j + 1, window))ₖ     α = (1/S − 1/B)/(1/A − 1/B),  β = 1 − α
//! x   = step i of S among the steps of A or B: 0 → 0, 1 → 1, the last two → the last two, those between in proportion
//!
//! guidance g        w, s of every S linear in g between the two strengths next to it that were trained, before all
//!                   else
//! ```
//!
//! Each budget is trained by itself. A and B are the neighbours of S among them, and δ and s at an x between two steps
//! go linearly from one to the other. Corrections of a multistep method on an uneven grid go with the step length 1/S,
//! which is therefore the variable. The first two steps have fewer slopes than the others and the last two end at the
//! data: they are unlike the rest and stand for themselves. Smooth functions of step and budget, learned on all budgets
//! at once, were tried before this: some budget always ended in a worse place than alone. Solvers of one budget under
//! two strengths of guidance have the same grid and the same windows, so that a strength between them needs no such
//! care. The method is ours.

use crate::Weights;
use crate::learned::{Built, Frame, LearnedSolver};
use dyweight_core::coeff::Coeff;
use dyweight_core::error::{Error, Result};
use dyweight_core::solver::{Initial, Rows, Scales};
use serde::{Deserialize, Serialize};

/// The longest grid.
const MOST_STEPS: usize = 1000;

/// The numbers of DyWeight for a range of budgets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnyBudget {
    /// Solvers of the budgets that were trained, the number of steps rising. It serves every budget from the first to
    /// the last. With several strengths of guidance, all budgets under the first, then all under the second, and so on.
    pub trained: Vec<BudgetMember>,
    /// Strengths of guidance they were trained under, rising, if there are several. It serves every strength from the
    /// first to the last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guidance: Vec<f64>,
}

/// The numbers of one budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BudgetMember {
    /// Weights, newest last; a row for each step.
    pub weights: Rows,
    /// Scales of the levels told to the network, of the last steps.
    pub time_scale: Scales,
}

/// A neighbour of a budget, its share in it, and how much its weights are above Adams–Bashforth's.
struct Neighbour<'t> {
    trained: &'t BudgetMember,
    share: f64,
    corrections: Rows,
}

impl AnyBudget {
    /// The fewest and the most steps it serves.
    pub fn range(&self) -> (usize, usize) {
        let steps = |trained: Option<&BudgetMember>| trained.map_or(0, BudgetMember::steps);
        (steps(self.trained.first()), steps(self.trained.last()))
    }

    /// True if this number of steps was trained, not one on either side.
    pub(crate) fn is_trained(&self, steps: usize) -> bool {
        self.trained.iter().any(|member| member.steps() == steps)
    }

    /// Window: the most slopes a step weighs.
    pub fn window(&self) -> usize {
        self.trained.iter().flat_map(|t| &t.weights).map(Vec::len).max().unwrap_or(0)
    }

    /// The weakest and the strongest guidance it serves, where the parameters depend on it.
    pub(crate) fn guidance_range(&self) -> Option<(f64, f64)> {
        Some((*self.guidance.first()?, *self.guidance.last()?))
    }

    /// The numbers of a run of so many steps under this guidance, or without saying under the strongest: a DyWeight
    /// solver like any other.
    pub fn weights_of(&self, steps: usize, guidance: Option<f64>) -> Result<Weights> {
        if let Some((weakest, strongest)) = self.guidance_range() {
            return self.under(guidance.unwrap_or(strongest), (weakest, strongest))?.weights_of(steps, None);
        }
        let (least, most) = self.range();
        if !(least..=most).contains(&steps) {
            return Err(Error::bad_value("steps", steps, format!("the numbers serve {least} to {most} steps")));
        }
        let above = self.trained.partition_point(|t| t.steps() < steps);
        let weights = match &self.trained[above] {
            own if own.steps() == steps => Weights::new(own.weights.clone(), own.time_scale.clone()),
            many => self.between(&self.trained[above - 1], many, steps),
        };
        weights.check()?;
        Ok(weights)
    }

    /// The same for one strength of guidance.
    fn under(&self, guidance: f64, (weakest, strongest): (f64, f64)) -> Result<Self> {
        if !(weakest..=strongest).contains(&guidance) {
            let expected = format!("the numbers serve {weakest} to {strongest}");
            return Err(Error::bad_value("guidance", guidance, expected));
        }
        let group = |strength: usize| {
            let budgets = self.trained.len() / self.guidance.len();
            &self.trained[strength * budgets..(strength + 1) * budgets]
        };
        let above = self.guidance.partition_point(|g| *g < guidance);
        let trained = if self.guidance[above] == guidance {
            group(above).to_vec()
        } else {
            let (a, b) = (self.guidance[above - 1], self.guidance[above]);
            let share = (guidance - a) / (b - a);
            group(above - 1).iter().zip(group(above)).map(|(a, b)| a.towards(b, share)).collect()
        };
        Ok(Self { trained, guidance: Vec::new() })
    }

    fn between(&self, few: &BudgetMember, many: &BudgetMember, steps: usize) -> Weights {
        let [a, own, b] = [few.steps(), steps, many.steps()].map(|s| 1.0 / s as f64);
        let share = (own - b) / (a - b);
        let neighbours = [(few, share), (many, 1.0 - share)].map(|(trained, share)| {
            let corrections = trained.corrections(self.window());
            Neighbour { trained, share, corrections }
        });
        let both = |of: &dyn Fn(&Neighbour<'_>) -> f64| neighbours.iter().map(|n| n.share * of(n)).sum::<f64>();
        let mut rows = Initial::Ab.rows(steps, self.window());
        for (i, row) in rows.iter_mut().enumerate() {
            let newest = row.len() - 1;
            for (j, weight) in row.iter_mut().enumerate() {
                *weight += both(&|n| n.correction(i, steps, newest - j));
            }
        }
        let scales = (few.without_scale()..steps).map(|i| both(&|n| n.trained.scale(i, steps))).collect();
        Weights::new(rows, scales)
    }
}

impl Neighbour<'_> {
    /// What was learned about the slope `back` from the newest, at step `i` of `steps`.
    fn correction(&self, i: usize, steps: usize, back: usize) -> f64 {
        let at = |step: usize| {
            let row = &self.corrections[step];
            // A step that does not reach so far back has learned nothing about it.
            row.len().checked_sub(back + 1).map_or(0.0, |place| row[place])
        };
        self.trained.interpolated(i, steps, at)
    }
}

impl BudgetMember {
    fn steps(&self) -> usize {
        self.weights.len()
    }

    /// Numbers between these and others of the same steps.
    fn towards(&self, other: &Self, share: f64) -> Self {
        let mut own = self.clone();
        let theirs = other.weights.iter().flatten().chain(&other.time_scale);
        let params = own.weights.iter_mut().flatten().chain(&mut own.time_scale);
        params.zip(theirs).for_each(|(own, theirs)| *own = (1.0 - share) * *own + share * theirs);
        own
    }

    /// Steps at the front that have no scale.
    fn without_scale(&self) -> usize {
        self.steps().saturating_sub(self.time_scale.len())
    }

    /// How much the weights are above Adams–Bashforth's of this window.
    fn corrections(&self, window: usize) -> Rows {
        let mut rows = self.weights.clone();
        let start = Initial::Ab.rows(self.steps(), window);
        rows.iter_mut().flatten().zip(start.iter().flatten()).for_each(|(weight, start)| *weight -= start);
        rows
    }

    fn scale(&self, i: usize, steps: usize) -> f64 {
        let at = |step: usize| self.time_scale[step.max(self.without_scale()) - self.without_scale()];
        self.interpolated(i, steps, at)
    }

    /// A function of this budget's steps at step `i` of another's.
    fn interpolated(&self, i: usize, steps: usize, at: impl Fn(usize) -> f64) -> f64 {
        let x = place(i, steps, self.steps());
        let (step, beyond) = (x as usize, x.fract());
        // At a step itself nothing else counts, to the last bit.
        if beyond == 0.0 { at(step) } else { (1.0 - beyond) * at(step) + beyond * at(step + 1) }
    }
}

/// Where step `i` of `steps` lies among the steps of another budget.
fn place(i: usize, steps: usize, among: usize) -> f64 {
    let proportion = |i: usize, of: usize, to: usize| i as f64 * to as f64 / of.max(1) as f64;
    if steps < 4 || among < 3 {
        return proportion(i, steps - 1, among - 1);
    }
    match (i, steps - 1 - i) {
        (0, _) => 0.0,
        (_, 0) => (among - 1) as f64,
        // From the second step to the last but one.
        _ => 1.0 + proportion(i - 1, steps - 3, among - 3),
    }
}

impl LearnedSolver for AnyBudget {
    fn steps(&self) -> Option<usize> {
        None
    }

    fn check(&self) -> Result<()> {
        let strengths = &self.guidance;
        if strengths.len() == 1 || !strengths.is_sorted_by(|a, b| a < b) || strengths.iter().any(|g| !g.is_finite()) {
            let expected = "several strengths, each above the one before";
            let value = format!("{:.80}", format!("{strengths:?}"));
            return Err(Error::bad_value("guidance", value, expected));
        }
        let steps: Vec<usize> = self.trained.iter().map(BudgetMember::steps).collect();
        let (least, most) = self.range();
        let budgets = steps.len() / strengths.len().max(1);
        let (first, others) = steps.split_at(budgets);
        let rising = first.is_sorted_by(|a, b| a < b);
        if least == 0 || most > MOST_STEPS || !rising || others.chunks(budgets.max(1)).any(|group| group != first) {
            let again = if strengths.is_empty() { "" } else { ", and the same under every strength of guidance" };
            let expected = format!("solvers of 1 to {MOST_STEPS} steps, each of more than the one before{again}");
            return Err(Error::bad_value("trained", format!("{:.80}", format!("{steps:?}")), expected));
        }
        let (window, without) = (self.window(), self.trained[0].without_scale());
        for trained in &self.trained {
            let steps = trained.steps();
            let rows: Vec<usize> = trained.weights.iter().map(Vec::len).collect();
            let expected: Vec<usize> = (1..=steps).map(|row| row.min(window)).collect();
            if rows != expected {
                return Err(Error::Shape { what: format!("weights of {steps} steps"), expected, found: rows });
            }
            let scales = trained.time_scale.len();
            if scales == 0 || without > 1 || scales + without != steps {
                let what = format!("time_scale of {steps} steps: as many for every budget, or one fewer");
                return Err(Error::Shape { what, expected: vec![steps - without.min(1)], found: vec![scales] });
            }
            Weights::new(trained.weights.clone(), trained.time_scale.clone()).check()?;
        }
        Ok(())
    }

    fn realised_times(&self, nominal: &[f64], guidance: Option<f64>) -> Result<Vec<f64>> {
        self.weights_of(nominal.len() - 1, guidance)?.realised_times(nominal, guidance)
    }

    fn build(&self, _: &[Coeff], frame: &Frame) -> Result<Built> {
        let weights = self.weights_of(frame.grid.steps(), None)?;
        (&weights as &dyn LearnedSolver).fixed(frame)
    }

    fn summary(&self) -> String {
        let (least, most) = self.range();
        let under =
            self.guidance_range().map_or(String::new(), |(weak, strong)| format!(" under guidance {weak} to {strong}"));
        format!("window {}, one solver for each of {least} to {most} steps{under}", self.window())
    }
}
