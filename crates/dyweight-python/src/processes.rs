//! Processes that Python has joined, such as those of `torchrun`: `dyweight.Comm` of the package as a [`Comm`] of the
//! library.

use crate::error::foreign;
use dyweight_core::error::Result;
use dyweight_sample::comm::{Comm, Solo};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;

struct Processes {
    object: Py<PyAny>,
    rank: usize,
    size: usize,
}

/// The processes an object of the package stands for; one if there is none.
pub fn processes(object: Option<&Bound<'_, PyAny>>) -> PyResult<Arc<dyn Comm>> {
    let Some(object) = object else { return Ok(Arc::new(Solo)) };
    let (rank, size) = (object.getattr("rank")?.extract()?, object.getattr("size")?.extract()?);
    Ok(Arc::new(Processes { object: object.clone().unbind(), rank, size }))
}

impl Comm for Processes {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn gather_bytes(&self, mine: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        let all = self.all_gather_bytes(mine)?;
        Ok((self.rank == 0).then_some(all))
    }

    fn all_gather_bytes(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let ask = |py: Python<'_>| -> PyResult<Vec<Vec<u8>>> {
            let all = self.object.bind(py).call_method1("all_gather", (PyBytes::new(py, mine),))?;
            all.try_iter()?.map(|bytes| Ok(bytes?.cast::<PyBytes>()?.as_bytes().to_vec())).collect()
        };
        Python::attach(ask).map_err(foreign)
    }

    fn broadcast_bytes(&self, mine: &[u8]) -> Result<Vec<u8>> {
        let ask = |py: Python<'_>| -> PyResult<Vec<u8>> {
            let first = self.object.bind(py).call_method1("broadcast", (PyBytes::new(py, mine),))?;
            Ok(first.cast::<PyBytes>()?.as_bytes().to_vec())
        };
        Python::attach(ask).map_err(foreign)
    }

    fn barrier(&self) -> Result<()> {
        Python::attach(|py| self.object.bind(py).call_method0("barrier").map(drop)).map_err(foreign)
    }

    fn abort(&self, code: i32) -> ! {
        std::process::exit(code)
    }
}
