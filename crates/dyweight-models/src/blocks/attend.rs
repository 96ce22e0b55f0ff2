//! Projections around attention: `y = out(attention(q(x), k(c), v(c))) + residual`, c the same tokens or others.

use crate::weights::Scope;
use dyweight_core::error::Result;
use dyweight_nn::{Act, Attention, Bias, Linear, LogSums};

/// Attention with its four projections.
pub(crate) struct Attend {
    q: Linear,
    k: Linear,
    v: Linear,
    out: Linear,
    core: Attention,
}

/// What the way back needs.
#[derive(Clone)]
pub(crate) struct AttendTape {
    q: Act,
    k: Act,
    v: Act,
    gathered: Act,
    sums: LogSums,
}

impl Attend {
    /// The projections' names, `[q, k, v, out]`; `context` is the width of the tokens that are attended to.
    pub(crate) fn new(
        scope: &Scope<'_>,
        names: [&str; 4],
        [channels, context]: [usize; 2],
        heads: usize,
        qkv_bias: bool,
    ) -> Result<Self> {
        let [q, k, v, out] = names;
        let project = |name: &str, from: usize| match qkv_bias {
            true => scope.linear(name, from, channels),
            false => scope.linear_without_bias(name, from, channels),
        };
        Ok(Self {
            q: project(q, channels)?,
            k: project(k, context)?,
            v: project(v, context)?,
            out: scope.linear(out, channels, channels)?,
            core: scope.attention(q, channels, heads)?,
        })
    }

    /// The same, each token seeing only those up to its own place.
    pub(crate) fn causal(self) -> Self {
        Self { core: self.core.causal(), ..self }
    }

    /// What tokens `x` gather from `context`, added to `residual`.
    pub(crate) fn forward(&self, x: &Act, context: &Act, residual: &Act, record: bool) -> (Act, Option<AttendTape>) {
        let (q, k, v) = (self.q.forward(x), self.k.forward(context), self.v.forward(context));
        let (gathered, sums) = self.core.forward(&q, &k, &v, Bias::NONE);
        let kept = record.then_some((q, k, v));
        let y = self.out.forward_residual(&gathered, residual, 1.0);
        (y, kept.map(|(q, k, v)| AttendTape { q, k, v, gathered, sums }))
    }

    /// The gradient of tokens that attend to themselves; the residual's is `gy`.
    pub(crate) fn backward_self(&self, tape: AttendTape, gy: &Act) -> Act {
        let [gq, gk, gv] = self.pull(tape, gy);
        let to_x = self.q.backward(&gq);
        drop(gq);
        let to_x = self.k.backward_residual(&gk, Some(&to_x), 1.0);
        drop(gk);
        self.v.backward_residual(&gv, Some(&to_x), 1.0)
    }

    /// The gradient of tokens that attend to others, which are not differentiated.
    pub(crate) fn backward_cross(&self, tape: AttendTape, gy: &Act) -> Act {
        let [gq, ..] = self.pull(tape, gy);
        self.q.backward(&gq)
    }

    fn pull(&self, tape: AttendTape, gy: &Act) -> [Act; 3] {
        let AttendTape { q, k, v, gathered, sums } = tape;
        let to_gathered = self.out.backward(gy);
        self.core.backward([&q, &k, &v], Bias::NONE, &gathered, &sums, &to_gathered)
    }
}
