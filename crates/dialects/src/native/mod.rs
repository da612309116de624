//! Native messages of a translator: requests to the mesh, and parsed messages from it.

mod from_mesh;
mod to_mesh;

pub(crate) use from_mesh::FromMesh;
pub(crate) use to_mesh::{broadcast, join, leave, members, signal};
